"""robots.txt as RFC 9309 has it, in tables: what is written, and what it means for Weir."""

import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import product
from urllib.robotparser import RobotFileParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from tests.proportion import proportion, spent_s
from weir.workers.fetches.robots.files import MOST_BYTES
from weir.workers.fetches.robots.rules import MAX_BYTES, Rules, origin_of, text_of
from weir.workers.fetches.targets import InvalidTarget, parse_target

SITE = "https://site.example"


def allows(text: str | bytes, path: str, product: str = "Weir") -> bool:
    """Tell what a robots.txt says about a path of its site."""
    written = text if isinstance(text, bytes) else text.encode()
    return Rules(text_of(written), product).allows(SITE + path)


def crawl_delay_s(text: str, product: str = "Weir") -> float | None:
    return Rules(text_of(text.encode()), product).crawl_delay_s


@for_each(
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


@for_each(
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
def test_the_group_that_names_weir_counts(text: str, refused: list[str], allowed: list[str]) -> None:
    """RFC 9309 (2.2.1): by product token, in any case, groups of one name joined, and `*` for all the others."""
    assert [path for path in refused + allowed if not allows(text, path)] == refused


def test_weirs_name_is_the_setting_s() -> None:
    """What is told to Weir is not told to a crawler of another name, and the other way round."""
    text = "User-agent: shopbot\nDisallow: /\n"
    assert not allows(text, "/", product="ShopBot")
    assert allows(text, "/", product="Weir")


# --- rules --------------------------------------------------------------------------------------------------------


@for_each(
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


@for_each(
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
    """A file without a group that names Weir, or all, has no rules."""
    assert allows(content, "/page")
    assert Rules(text_of(content), "Weir").crawl_delay_s is None


@for_each(
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


# --- files that want to take long ---------------------------------------------------------------------------------

SIGNS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
SHORT = ["".join(signs) for length in (1, 2, 3) for signs in product(SIGNS, repeat=length)]  # and each another one
HONEST = "Disallow: /a/page/of/ours/{}\n"
LAST = "\nUser-agent: *\nDisallow: /said-last\nDisallow: *said-last\n"


def filled(line: str, start: str = "user-agent:*\n") -> str:
    """Return a file of as many bytes as count: its start, this line again and again, each with a number, and LAST."""
    room = MAX_BYTES - len(start.encode()) - len(LAST)
    if "{}" not in line:
        return start + line * (room // len(line.encode())) + LAST
    lines = [line.replace("{}", short) for short in SHORT[: room // len(line.encode())]]
    while sum(len(line.encode()) for line in lines) > room:
        del lines[-len(lines) // 20 - 1 :]
    return "".join([start, *lines, LAST])


# Lines of which there are as many as there can be, and what is as long as it can be.
MANY = [
    "allow:/\n", "allow:/{}\n", "allow:/{}\r", "allow:/{}\r\n", "allow:/$ {}$\n", "allow:*{}\n", "allow:*{}*\n",
    "allow:*{}$\n", "allow:/%{}\n", "allow:/%41{}\n", "allow:*%2f?%2f{}\n", "allow:/é{}\n", "allow:/{}/index.htm\n",
    "user-agent:{}\n",
    "user-agent:*\n", "user-agent:*\nallow:/{}\n", "crawldelay:1\n", "request rate:1/1m\n", "a\n", "\n", "\r", "#\n",
    " ", "user-agent:other\ndisallow:*{}$\n", "allow ", "user agent ",
]  # fmt: skip
LONG = ["%", "%%4", "%41", "%a", "é", "<", "a<", "$", "*a", "*", "?%2f", "*%2f", " ", "a", "#", ":"]
HOSTILE = [(line, "user-agent:*\n") for line in MANY] + [(line, "user-agent:*\nallow:/x") for line in LONG]


@pytest.fixture(scope="module")
def hostile() -> dict[str, str]:
    """Return files of MAX_BYTES, by what is in them."""
    return {start + line: filled(line, start) for line, start in HOSTILE}


def test_whatever_a_file_is_filled_with_its_last_rule_counts(hostile: dict[str, str]) -> None:
    """RFC 9309 (2.5) wants 500 KiB parsed: none of it is left out, whatever stands before it, and for whom."""
    for filling, text in hostile.items():
        assert 450 * 1_024 < len(text.encode()) <= MAX_BYTES
        rules = Rules(text_of(text.encode()), "weir")
        assert not rules.allows(f"{SITE}/said-last"), filling
        assert not rules.allows(f"{SITE}/?what-is-said-last"), filling


def test_no_file_takes_longer_than_a_tenth_of_a_second(hostile: dict[str, str]) -> None:
    """To be read, whatever is in it: the thread that does so claims all other fetches, too.

    Or than five times as long as an honest file at the same moment, as the machine may be slow then.
    """
    honest = partial(Rules, filled(HONEST), "weir")
    content = b"user-agent:*\nallow:/" + b"\xe9a" * (MAX_BYTES // 2 - 20)
    readings: dict[str, Callable[[], object]] = {
        **{filling: partial(Rules, text, "weir") for filling, text in hostile.items()},
        "no UTF-8": lambda: Rules(text_of(content), "weir"),
    }

    def is_slow(read: Callable[[], object]) -> bool:
        return all((took_s := spent_s(read)) > 0.1 and took_s > 5 * spent_s(honest) for _ in range(5))

    assert [filling for filling, read in readings.items() if is_slow(read)] == []


PATHS = ["a" * 8_000, "é" * 8_000, "ab" * 4_000, "a%2F" * 2_000, "?" + "/" * 7_000, "x"]
# Rules that take long to apply: many pieces, pieces that nearly match, and such as are looked for twice.
SLOW = ["*a" * 2_000 + "*b{}", "*" + "a" * 49 + "b" + "a" * 40 + "{}", "*%2fa{}", "*é*é{}"]


def test_no_step_of_a_trial_takes_long(hostile: dict[str, str]) -> None:
    """Whatever the rules are, and however long the URL is: a trial can be put off soon, and gets on.

    Each takes less than twice as long as Python's parser takes for an honest file of a tenth of that size.
    """
    lines = filled(HONEST).splitlines()
    honest = partial(RobotFileParser().parse, lines[: len(lines) // 10])
    honest_s = min(spent_s(honest) for _ in range(3))
    starred = {filling: text for filling, text in hostile.items() if "*" in filling[12:]}
    for filling, text in {**starred, **{slow: filled(f"allow:{slow}\n") for slow in SLOW}}.items():
        rules = Rules(text, "weir")
        for url in (f"{SITE}/{path}" for path in PATHS):
            trial = rules.trial(url)
            for done in range(3):
                verdicts: list[bool | None] = []
                if spent_s(lambda: verdicts.append(next(trial))) > 2 * honest_s:  # noqa: B023  called at once
                    again = partial(step_s, rules, url, done)  # as it may have been the machine
                    assert proportion(again, lambda: spent_s(honest), 2) < 2, (filling, url[:40], done)
                if verdicts != [None]:
                    break


def step_s(rules: Rules, url: str, done: int) -> float:
    """Return the processor time of the step of a trial before which so many are done."""
    trial = rules.trial(url)
    for _ in range(done):
        next(trial)
    return spent_s(lambda: next(trial))


def test_what_alone_takes_long_is_not_in_the_first_step() -> None:
    """Which costs nothing: each fetch of a message has one."""
    for text, path in (("allow:/" + "*a" * 200_000 + "b", "a" * 4_000), ("disallow:/private", "%2F" * 3_000)):
        first, *_, last = Rules(f"user-agent:*\n{text}", "weir").trial(f"{SITE}/{path}")
        assert (first, last) == (None, True)


def test_a_long_trial_says_the_same_as_a_short_one() -> None:
    """In as many steps as it takes."""
    rules = Rules(filled("disallow:*{}\n"), "weir")
    for path, is_allowed in (("/" + "!" * 8_000, True), ("/" + "!" * 7_000 + "a", False)):
        *before, last = rules.trial(SITE + path)
        assert (set(before), last) == ({None}, is_allowed)


def test_many_names_with_many_rules_take_no_memory() -> None:
    """The crawlers that it names are not multiplied with its rules."""
    text = "".join(f"User-agent: bot{number}\n" for number in range(9_900))
    text += "".join(f"Disallow: /{number}\n" for number in range(10_000)) + ALL
    tracemalloc.start()
    try:
        assert not allows(text, "/all")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


PIECES = [
    *[
        "User-agent:",
        "user agent ",
        "*",
        "weir",
        "weir/1",
        "Disallow:",
        "disallow ",
        "Allow:",
        "Crawl-delay:",
        "Sitemap:",
    ],
    *[
        "Request-rate:",
        "1/1s 1-2",
        "Visit-time:",
        "Host:",
        "#",
        ":",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\x0b",
        "\x1c",
        "\0",
        "\x85",
    ],
    *[
        "%",
        "%4",
        "%zz",
        "%41",
        "%2a",
        "%C3",
        "$",
        "$$",
        "?",
        "/",
        "//",
        "[",
        "[::1",
        "http://[",
        "index.html",
        "a" * 500,
    ],
    *["1e999", "nan", "-1", "inf", "1e-320", "\N{LINE SEPARATOR}", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}"],
]


@given(
    said=st.lists(st.one_of(st.sampled_from([piece.encode() for piece in PIECES]), st.binary(max_size=4))),
    path=st.lists(st.sampled_from([*PIECES, "..", "\N{GRINNING FACE}"])),
)
def test_nothing_that_a_site_can_say_is_an_error(said: list[bytes], path: list[str]) -> None:
    """Whatever it is, it can be stored and be applied to any URL, and its Crawl-delay is a time."""
    text = text_of(b"".join(said))
    rules = Rules(text, "weir")
    try:
        url = parse_target(f"{SITE}/{''.join(path)}").url
    except InvalidTarget:
        url = f"{SITE}/"
    assert rules.allows(url) in (True, False)
    assert timedelta(0) < timedelta(seconds=rules.crawl_delay_s or 1) <= timedelta(days=1)
    assert "\0" not in text
    text.encode()


# --- Crawl-delay --------------------------------------------------------------------------------------------------


def test_the_crawl_delay_is_that_of_weirs_group() -> None:
    """What is asked of all does not bind a crawler that a group names, and others' delays are not Weir's."""
    text = "User-agent: *\nCrawl-delay: 9\n\nUser-agent: weir\nDisallow: /x\n\nUser-agent: slow\nCrawl-delay: 60\n"
    assert crawl_delay_s(text) is None
    assert crawl_delay_s(text, product="other") == 9
    assert crawl_delay_s(text, product="slow") == 60


@for_each(
    "line",
    [
        "Disallow:/{}",
        "Disallow:/*{}$",
        "Disallow:/{}$",
        "Allow:*{}",
        "Disallow:/%41{}",
        "Disallow: /some/path/that/is/usual/{}",
        "Allow: /\u4e2d\u6587{}",
    ],
)
@for_each("agents", ["User-agent: *\n", "User-agent: *\nUser-agent: weir\nUser-agent: other\n"])
def test_rules_know_about_how_much_memory_they_take(line: str, agents: str) -> None:
    """What a process remembers is bounded by it, so it must not be much less than the truth."""
    text = agents + "\n".join(line.format(number) for number in range(1_000))
    Rules(text, "weir")  # what the first call keeps for others is not counted
    tracemalloc.start()
    try:
        rules = Rules(text, "weir")
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < rules.size < 2 * taken


def test_the_rules_of_ten_thousand_origins_are_remembered() -> None:
    """Of 1.5 KB each: a process that forgets them parses a hundred texts for each claim."""
    usual = "User-agent: *\n" + "".join(f"Disallow: /some/path/that/is/usual/{number:05}\n" for number in range(36))
    assert 10_000 * Rules(usual, "weir").size < MOST_BYTES
