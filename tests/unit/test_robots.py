"""robots.txt as RFC 9309 has it, in tables: what is written, and what it means to us."""

import time
import tracemalloc

import pytest

from workers.fetches.robots import LONGEST_CRAWL_DELAY_S, MAX_BYTES, Rules, origin_of, text_of

SITE = "https://site.example"


def allows(text: str | bytes, path: str, product: str = "Weir") -> bool:
    """Tell what a robots.txt says about a path of its site."""
    written = text if isinstance(text, bytes) else text.encode()
    return Rules(text_of(written), product).allows(SITE + path)


def crawl_delay_s(text: str, product: str = "Weir") -> float | None:
    return Rules(text_of(text.encode()), product).crawl_delay_s


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://site.example/page?x=1", "https://site.example"),
        ("http://site.example", "http://site.example"),
        ("http://site.example:8080/a/b", "http://site.example:8080"),
        ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    """Each of them has a robots.txt of its own."""
    assert origin_of(url) == origin


# --- groups -------------------------------------------------------------------------------------------------------


OURS = "User-agent: weir\nDisallow: /ours\n"
ALL = "User-agent: *\nDisallow: /all\n"


@pytest.mark.parametrize(
    ("text", "refused", "allowed"),
    [
        pytest.param(OURS + ALL, ["/ours"], ["/all"], id="our group alone counts where there is one"),
        pytest.param(ALL + OURS, ["/ours"], ["/all"], id="wherever it stands"),
        pytest.param(ALL, ["/all"], ["/ours"], id="else the group of all"),
        pytest.param("User-agent: other\nDisallow: /\n", [], ["/"], id="others' groups are not ours"),
        pytest.param("User-agent: WEIR\nDisallow: /ours\n", ["/ours"], [], id="whatever the case"),
        pytest.param("User-agent: we\nDisallow: /\n" + ALL, ["/all"], ["/"], id="a part of our name is not ours"),
        pytest.param("User-agent: weir-images\nDisallow: /\n" + ALL, ["/all"], ["/"], id="nor is a longer one"),
        pytest.param("User-agent: weir/2.0\nDisallow: /ours\n", ["/ours"], [], id="a version is ignored"),
        pytest.param("User-agent: Weir*\nDisallow: /ours\n", ["/ours"], [], id="so is an asterisk"),
        pytest.param("User-agent: a\nUser-agent: weir\nDisallow: /ours\n", ["/ours"], [], id="one of several names"),
        pytest.param(
            "User-agent: weir\n\n# why\nUser-agent: b\n\nDisallow: /x\n", ["/x"], [], id="blank lines between"
        ),
        pytest.param(OURS + ALL + "User-agent: weir\nDisallow: /more\n", ["/ours", "/more"], ["/all"], id="two groups"),
        pytest.param("Disallow: /early\n" + ALL, ["/all"], ["/early"], id="a rule before any group"),
        pytest.param("Sitemap: https://a.example/\n" + ALL, ["/all"], [], id="a sitemap belongs to no group"),
        pytest.param("user agent weir\nDisallow /ours\n", ["/ours"], [], id="without colons"),
        pytest.param(ALL + "User agent policy: ask us\nDisallow: /too\n", ["/all", "/too"], [], id="no group, though"),
        pytest.param("User-agent:\nDisallow: /\n", [], ["/"], id="a group of no name"),
    ],
)
def test_the_group_that_names_us_is_ours(text: str, refused: list[str], allowed: list[str]) -> None:
    """RFC 9309 (2.2.1): by product token, in any case, groups of one name joined, and `*` for whom no group names."""
    assert [path for path in refused + allowed if not allows(text, path)] == refused


def test_our_name_is_the_setting_s() -> None:
    """What is told to Weir is not told to a crawler of another name, and the other way round."""
    text = "User-agent: shopbot\nDisallow: /\n"
    assert not allows(text, "/", product="ShopBot")
    assert allows(text, "/", product="Weir")


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        ("Disallow: /a", "/a/b", False),
        ("Disallow: /a", "/A", True),
        ("Disallow: /a/", "/a", True),
        ("Disallow: /\nAllow: /open", "/open/page", True),
        ("Allow: /open\nDisallow: /open/not", "/open/not", False),
        ("Disallow: /same\nAllow: /same", "/same", True),
        ("Disallow:", "/", True),
        ("Disallow: /*.gif$", "/a/b.gif", False),
        ("Disallow: /*.gif$", "/a/b.gif?x", True),
        ("Disallow: /*?", "/page?x=1", False),
        ("Disallow: /*?", "/page", True),
        ("Disallow: /caf%C3%A9", "/caf%c3%a9", False),
        ("Disallow: /café", "/caf%C3%A9", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /x # not this: /y", "/x", False),
        ("  disallow :  /x  ", "/x", False),
        ("Disallow: //double", "//double/slash", False),
        ("Disallow: /", "", False),
        ("Noindex: /x", "/x", True),
    ],
)
def test_the_longest_rule_that_matches_decides(rules: str, path: str, expected: bool) -> None:
    """RFC 9309 (2.2.2, 2.2.3): the longest match, Allow where they are equal, `*` and `$`, percent-encoding."""
    assert allows(f"User-agent: *\n{rules}\n", path) is expected


# --- files as they come -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n\n  \n", id="blank"),
        pytest.param(b"# User-agent: *\n# Disallow: /\n", id="comments"),
        pytest.param(b"<!DOCTYPE html><html><title>User-agent: page</title>\n<p>Disallow: all</p></html>", id="HTML"),
        pytest.param(b"\xff\xfe\x00\x80" * 50, id="not text"),
        pytest.param(b"x" * (MAX_BYTES + 1), id="one endless line"),
    ],
)
def test_what_says_nothing_allows_everything(content: bytes) -> None:
    """A file without a group that names us, or all, has no rules."""
    assert allows(content, "/page")
    assert Rules(text_of(content), "Weir").crawl_delay_s is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbfUser-agent: *\nDisallow: /x", id="byte order mark, no line end"),
        pytest.param(b"User-agent: *\r\nDisallow: /x\r\n", id="CR LF"),
        pytest.param(b"User-agent: *\rDisallow: /x\r", id="CR"),
        pytest.param(b"\0User-agent: *\nDisallow: /\0x\n", id="NUL"),
        pytest.param(b"\xe9\xff\nUser-agent: *\nDisallow: /x\n", id="a line that is not UTF-8"),
    ],
)
def test_the_rules_are_read_however_the_file_is_written(content: bytes) -> None:
    """Line ends, byte order marks and stray bytes do not hide them."""
    assert not allows(content, "/x")
    assert allows(content, "/y")
    assert "\0" not in text_of(content)


def test_of_a_file_that_is_too_large_the_first_whole_lines_count() -> None:
    """What lies behind the cap is cut off, with the line that the cap goes through: half of it may say anything."""
    beginning = b"User-agent: *\nDisallow: /first\n"
    filling = b"#" * (MAX_BYTES - len(beginning) - len(b"\nDisallow: /")) + b"\n"
    content = beginning + filling + b"Disallow: /cut\nDisallow: /last\n"
    assert content[:MAX_BYTES].endswith(b"\nDisallow: /")
    assert not allows(content, "/first")
    for path in ("/", "/cut", "/last"):
        assert allows(content, path)


def test_a_file_that_fits_is_read_to_its_last_byte() -> None:
    """The cap itself is not too large."""
    line = b"\nUser-agent: *\nDisallow: /last"
    content = b"#" * (MAX_BYTES - len(line)) + line
    assert not allows(content, "/last")


def test_many_names_with_many_rules_take_neither_time_nor_memory() -> None:
    """A hostile file of 500 KB: the crawlers that it names are not multiplied with its rules."""
    text = "".join(f"User-agent: bot{number}\n" for number in range(15_000))
    text += "".join(f"Disallow: /{number}\n" for number in range(10_000)) + ALL
    tracemalloc.start()
    began_at = time.monotonic()
    try:
        assert not allows(text, "/all")
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began_at < 20


@pytest.mark.parametrize("line", ["user agent" + " " * 400_000 + "x: ", " " * 400_000, "user-agent:" + " *" * 200_000])
def test_a_line_of_endless_blanks_takes_no_time(line: str) -> None:
    """However long a line is, it is gone through a fixed number of times."""
    began_at = time.monotonic()
    assert not allows(f"{line}\n{ALL}", "/all")
    assert time.monotonic() - began_at < 5


# --- Crawl-delay --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("10", 10.0),
        ("0.5", 0.5),
        (" 2 # be kind", 2.0),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("10s", None),
        ("ten", None),
        ("", None),
        ("86400", 86_400.0),
        ("86401", LONGEST_CRAWL_DELAY_S),
        ("1e300", LONGEST_CRAWL_DELAY_S),
    ],
)
def test_a_crawl_delay_is_a_positive_number_of_at_most_a_day(written: str, seconds: float | None) -> None:
    """Nonsense is ignored, and what would stop a lane for longer is capped."""
    assert crawl_delay_s(f"User-agent: *\nCrawl-delay: {written}\n") == seconds


def test_the_crawl_delay_is_that_of_our_group() -> None:
    """What is asked of all does not bind whom a group names, and others' delays are not ours."""
    text = "User-agent: *\nCrawl-delay: 9\n\nUser-agent: weir\nDisallow: /x\n\nUser-agent: slow\nCrawl-delay: 60\n"
    assert crawl_delay_s(text) is None
    assert crawl_delay_s(text, product="other") == 9
    assert crawl_delay_s(text, product="slow") == 60
