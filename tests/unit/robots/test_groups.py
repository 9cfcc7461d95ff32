"""Which lines of a robots.txt are said to Weir: groups, names, and lines that are neither."""

from tests.cases import for_each
from weir.workers.fetches.robots.groups import group_for

OTHER_LINES = [
    "Sitemap: https://a.example/s", "Noindex: /x", "Crawl-delay: 5", "Crawl-delay:", "Clean-param: a /",
    "Host: a.example", "Request-rate: 1/5", "Visit-time: 0200 0630", "unheard of", "Unheard-of:", ":", "<p>",
    "allow me to say this",
    "user agent strings are logged here", "Disallow-all: /", "disallow", "allowance: /x", "# comment", "\t",
    "\x0b", "é: é",
]  # fmt: skip


def said(text: str, product: str = "weir") -> tuple[list[str], list[str]]:
    """Return what is allowed, and what is disallowed."""
    group = group_for(text, product)
    return group.allowed, group.disallowed


@for_each("end", ["\n", "\r", "\r\n"])
def test_no_other_line_ends_a_group(end: str) -> None:
    """RFC 9309 (2.2.4): between names, between a name and its rules, and between rules."""
    for line in OTHER_LINES:
        for written in (
            ["User-agent: weir", line, "User-agent: other", "Disallow: /x"],
            ["User-agent: other", line, "User-agent: weir", line, "Disallow: /x"],
            ["User-agent: other", line, "User-agent: *", line, line, "Disallow: /x"],
            ["User-agent: weir", "Allow: /y", line, "Disallow: /x"],
            [line, "User-agent: weir", "Disallow: /x"],
        ):
            assert said(end.join(written))[1] == ["/x"], written


def test_a_rule_ends_the_names() -> None:
    """Also one that is empty, and one for others."""
    for rule in ("Disallow: /a", "Allow: /a", "Disallow:", "Allow:", "disallow /a", "Dissalow: /a"):
        text = f"User-agent: other\n{rule}\nUser-agent: weir\nDisallow: /x\nUser-agent: third\nDisallow: /y"
        assert said(text) == ([], ["/x"]), rule


def test_only_cr_and_lf_end_lines() -> None:
    """RFC 9309 (2.2): what other characters stand for in other places does not matter."""
    for sign in "\x0b\x0c\x1c\x1d\x1e\x85\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}\N{NO-BREAK SPACE}":
        assert said(f"User-agent: weir\n# note{sign}Disallow: /") == ([], []), ascii(sign)
        assert said(f"User-agent: weir\nDisallow: /a{sign}Disallow: /b")[1] == [f"/a{sign}Disallow: /b"], ascii(sign)


def test_a_name_is_a_product_token() -> None:
    """RFC 9309 (2.2.1): letters, `-` and `_`, in any case; whatever stands behind it is no part of it."""
    for name, product, is_ours in [
        ("Weir", "weir", True),
        ("WEIR", "Weir", True),
        ("Weir 0.1", "weir", True),
        ("Weir/0.1 (+https://a.example)", "weir", True),
        ("Weir*", "weir", True),
        ("Weir;", "weir", True),
        ("we", "weir", False),
        ("weir-images", "weir", False),
        ("weir_images", "weir", False),
        ("*weir", "weir", False),
        ("the weir", "weir", False),
        ("", "weir", False),
        ("", "", False),
        ("/1", "", False),
        ("Bot2000", "bot2000", True),
        ("Bot2000/3", "bot2000", True),
        ("Bot3000", "bot2000", False),
        ("shop.example-bot x", "shop.example-bot", True),
    ]:
        assert group_for(f"User-agent: {name}\nDisallow: /x", product).is_named is is_ours, (name, product)


def test_all_are_meant_by_an_asterisk_alone() -> None:
    """And by one with more behind a blank, as Google has it."""
    for name, is_meant in [
        ("*", True),
        ("* # all", True),
        ("* all", True),
        ("*bot", False),
        ("**", False),
        (".*", False),
    ]:
        assert bool(said(f"User-agent: {name}\nDisallow: /x")[1]) is is_meant, name


def test_lines_are_read_however_they_are_written() -> None:
    """Blanks, missing colons, six misspellings."""
    for line in [
        "Disallow:/x", "disallow : /x", "\t DISALLOW\t:\t/x\t", "disallow /x", "disallow\t/x # no /y", "Dissallow: /x",
        "Dissalow: /x", "Disalow: /x", "Diasllow: /x", "Disallaw: /x", "Disallow: /x\x0b",
        "\xa0Disallow:\u2002/x\xa0", "Disallow: /x#y",
    ]:  # fmt: skip
        for name in (
            "User-agent: weir",
            "user agent: weir",
            "useragent:weir",
            "user-agent weir",
            "user agent weir # x",
        ):
            assert said(f"{name}\n{line}") == ([], ["/x"]), (name, line)


def test_what_is_said_to_others_is_not_kept() -> None:
    """However much it is."""
    others = "".join(f"User-agent: bot{number}\nDisallow: /{number}\nAllow: /a\n" for number in range(1_000))
    assert said(f"{others}User-agent: *\nDisallow: /x\n{others}") == ([], ["/x"])


# --- delays -------------------------------------------------------------------------------------------------------


def delay_s(text: str, product: str = "weir") -> float | None:
    return group_for(text, product).delay_s


def test_the_longest_delay_counts() -> None:
    """In one group, over groups of one name, and over both ways to ask for it."""
    for text in (
        "User-agent: weir\nCrawl-delay: 10\nCrawl-delay: 1",
        "User-agent: weir\nCrawl-delay: 1\nDisallow: /x\nUser-agent: weir\nCrawl-delay: 10",
        "User-agent: *\nCrawl-delay: 10\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 1",
        "User-agent: weir\nRequest-rate: 1/10\nCrawl-delay: 1",
        "User-agent: weir\nCrawl-delay: 0.1\nRequest-rate: 6/1m",
        "User-agent: weir\nCrawl-delay: ten\nCrawl-delay: 10",
    ):
        assert delay_s(text) == 10, text


def test_a_delay_holds_for_the_names_right_above_it() -> None:
    """It ends no group; but who is named after it was not asked for it."""
    text = (
        "User-agent: slow\nCrawl-delay: 60\nUser-agent: weir\nUser-agent: finch\nCrawl-delay: 5\nUser-agent: *\n"
        "Disallow: /x"
    )
    delays = {name: delay_s(text, name) for name in ("slow", "weir", "finch", "wren")}
    assert delays == {"slow": 60, "weir": 5, "finch": 5, "wren": None}
    assert {name: said(text, name)[1] for name in delays} == {name: ["/x"] for name in delays}


def test_a_delay_behind_rules_is_one_of_their_group() -> None:
    assert delay_s("User-agent: weir\nUser-agent: other\nDisallow: /x\nCrawl-delay: 7\nAllow: /y\nCrawl-delay: 8") == 8
    assert delay_s("Crawl-delay: 7\nUser-agent: weir\nDisallow: /x") is None
