"""One site has one site: every spelling of a name comes to it, and what names no site is refused."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cases import for_each
from weir.ratelimit.site_names import MAX_LENGTH, InvalidSiteName, ancestors, canonical
from weir.workers.fetches.targets import InvalidTarget, parse_target


@for_each(
    ("spelling", "site"),
    [
        ("example.com", "example.com"),
        ("Example.COM", "example.com"),
        (" example.com\n", "example.com"),
        ("example.com.", "example.com"),
        ("example.com:8080", "example.com:8080"),
        ("EXAMPLE.com.:8080", "example.com:8080"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:81", "127.0.0.1:81"),
        ("[::1]", "[::1]"),
        ("[2001:DB8::1]:8080", "[2001:db8::1]:8080"),
        ("localhost", "localhost"),
        ("mail-relay", "mail-relay"),
        ("Job_A.7", "job_a.7"),
        ("[FE80::0:1%ETH0]:25", "[fe80::1%eth0]:25"),
        ("☃.example:81", "xn--n3h.example:81"),
        ("FAẞ.example", "xn--fa-hia.example"),
    ],
)
def test_every_spelling_of_a_name_comes_to_one(spelling: str, site: str) -> None:
    """Case, outer space and the trailing dot of a host do not make another site; its port does."""
    assert canonical(spelling) == site


@for_each(
    "name",
    [
        "", "   ", ".", "...", "https://example.com", "example.com/", "example.com/page", "user@example.com",
        "example.com?x=1", "example.com#top", "exam ple.com", "example.com\tb", "example\0.com",
        "[fe80::1%a?b]", "[fe80::1%\0]", "[fe80::1%a#b]",
        "x" * (MAX_LENGTH + 1), "ä" * 2_000, "\ud800.example", "ä..example", "\u200d.example", "[::ä]",
        "example.com\N{NO-BREAK SPACE}b", "//example.com",
    ],
)  # fmt: skip
def test_what_names_no_site_is_refused_with_an_example(name: str) -> None:
    """Empty and overlong texts, URLs and paths are refused; the refusal shows what a name looks like."""
    with pytest.raises(InvalidSiteName, match=r"such as api\.example\.com or example\.com:8080"):
        canonical(name)


@for_each("name", ["*.example.com", "*", "www*.example.com", "*.example.com:8080"])
def test_a_pattern_is_refused_with_what_covers_subdomains(name: str) -> None:
    """It would be a site of that very name, which no host ever has, and limit nothing."""
    with pytest.raises(InvalidSiteName, match=r"is a pattern.* --covers-subdomains"):
        canonical(name)


def test_a_port_without_a_host_is_refused() -> None:
    """A port alone names no site."""
    with pytest.raises(InvalidSiteName):
        canonical(":8080")


def test_the_longest_name_is_accepted() -> None:
    """The limit is the length of the database's column, and belongs to it."""
    assert canonical("x" * MAX_LENGTH) == "x" * MAX_LENGTH


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most texts name no site
@given(st.text(max_size=40))
def test_the_canonical_name_of_a_canonical_name_is_itself(text: str) -> None:
    """A name that went through once is not changed again."""
    try:
        site = canonical(text)
    except InvalidSiteName:
        assume(False)
    assert canonical(site) == site


@given(
    st.from_regex(r"\A(?i:https?)://(?:[A-Za-z0-9]{1,8}\.){0,3}[A-Za-z]{2,6}\.?(?::[1-9][0-9]{0,3})?/\Z")
    | st.from_regex(r"\Ahttps?://\[[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}\](?::[1-9][0-9]{0,3})?/\Z")
)
def test_the_site_of_a_url_is_canonical(url: str) -> None:
    """Fetches and `throttle` of one site share one site: the site of a URL is its own canonical spelling."""
    try:
        site = parse_target(url).host
    except InvalidTarget:
        assume(False)
    assert canonical(site) == site


@for_each("host", ["Example.com.", "bücher.example", "BÜCHER.example", "[0:0:0:0:0:0:0:1]", "[2001:DB8::0:1]"])
def test_the_host_as_it_stands_in_a_url_names_the_site_of_that_url(host: str) -> None:
    """A name that is spelled as in a URL names the site of that URL's host."""
    assert canonical(host) == parse_target(f"https://{host}/").host


@for_each(
    ("site", "above"),
    [
        ("a.b.example.com", ["b.example.com", "example.com", "com"]),
        ("example.com", ["com"]),
        ("localhost", []),
        ("a.example.com:8080", ["example.com:8080", "com:8080"]),
        ("1.2.3.4", []),
        ("1.2.3.4:81", []),
        ("[2001:db8::1]", []),
        ("[::1]:8080", []),
    ],
)
def test_a_site_may_be_covered_by_the_names_above_it(site: str, above: list[str]) -> None:
    """The nearest comes first, the port stays, and addresses have nothing above them."""
    assert ancestors(site) == above
