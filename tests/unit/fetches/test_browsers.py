"""Targets are a browser's: tables of what browsers ask for, and what is asked for here."""

# ruff: noqa: RUF001  characters that look like others are a part of the tables

import can_ada
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import for_each
from tests.unit.fetches.browsers import BASE, LOCATIONS, NO_URLS, REFUSED, TEXTS
from weir.ratelimit.site_names import canonical
from weir.workers.fetches.targets import InvalidTarget, parse_target, parts_of

LETTERS = "aé☃ßẞ019.-_\u00ad。１ΣİK"
TRICKY = st.sampled_from([*LETTERS, *":/\\?#@%[]^ '\"~|", "%2e", "%2F", "//", "\\\\", "http:", "xn--"])
BEGINNINGS = st.sampled_from(["", "http://", "http://a.example/", "//", "https:"])


def said(text: str, base: str = "") -> str:
    """Return the URL that is sent, or why the text is refused."""
    try:
        return parse_target(text, base=base).url
    except InvalidTarget as refusal:
        return f"! {refusal}"


@for_each("kind", TEXTS)
def test_what_is_sent_is_what_browsers_send(kind: str) -> None:
    """Host, port, path and query are equal; nothing is escaped, or taken out of its escapes, but as they do."""
    assert {text: said(text) for text, _ in TEXTS[kind]} == dict(TEXTS[kind])


def test_redirects_lead_where_browsers_go() -> None:
    """With all their slashes and backslashes; None stands for a scheme that is not fetched."""
    found = {location: said(location, BASE) for location, _ in LOCATIONS}
    assert {location: None if "! the scheme" in url else url for location, url in found.items()} == dict(LOCATIONS)


def test_what_browsers_refuse_is_refused() -> None:
    """Each with a reason."""
    assert [text for text in NO_URLS if not said(text).startswith("! ")] == []
    assert [text for text in NO_URLS if not said(text, BASE).startswith("! ")] == []


@for_each("reason", REFUSED)
def test_what_browsers_accept_and_fetches_do_not_says_why(reason: str) -> None:
    """What hides where it leads is refused, and what the DNS cannot have."""
    assert [text for text in REFUSED[reason] if reason not in said(text)] == []


@given(st.lists(TRICKY, max_size=12).map("".join), BEGINNINGS)
@example("/b?", "http://a.example")
def test_whatever_is_accepted_leads_where_the_parser_of_browsers_says(text: str, before: str) -> None:
    """Alone or as a redirect, target and host are the parser's own; only the final dot of a host goes."""
    for base in ("", BASE):
        try:
            target = parse_target(before + text, base=base)
        except InvalidTarget:
            continue
        url = can_ada.parse(base) + (before + text) if base else can_ada.parse(before + text)
        sharp = "ẞ" in before + text  # of which the parser's tables are older than browsers
        parts = parts_of(target.url)
        assert sharp or parts.host == url.hostname.removesuffix(".").strip("[]")
        assert (parts.scheme, parts.path_and_query.partition("?")[0]) == (
            url.protocol.removesuffix(":"), url.pathname.replace("^", "%5E"),
        )  # fmt: skip
        _, question, query = parts.path_and_query.partition("?")
        assert (bool(question), f"?{query}" if query else "") == (url.has_search(), url.search)
        assert parts.authority == target.host == canonical(target.host)


@given(st.text(max_size=40) | st.lists(TRICKY, max_size=20).map("".join))
def test_what_is_sent_is_printable_ascii_and_names_itself(text: str) -> None:
    """A stored URL is parsed to the same again; nothing in it ends a line, or a word, of a request."""
    for whole in (text, f"http://{text}", f"https://a.example/{text}"):
        try:
            target = parse_target(whole)
        except InvalidTarget:
            continue
        assert parse_target(target.url) == parse_target(target.url, base=BASE) == target
        assert target.url.isascii()
        assert all("!" <= character <= "~" for character in target.url)


@given(st.text(LETTERS, min_size=1, max_size=10))
@example("ΑΣ")
@example("☃.example")
def test_a_host_names_the_site_of_its_fetches(host: str) -> None:
    """However it is written, `sites` and `fetch` mean the same one."""
    try:
        site = parse_target(f"http://{host}/").host
    except InvalidTarget:
        return
    assert canonical(host) == site


@for_each(
    ("url", "parts"),
    [
        ("http://a.example/", ("http", "a.example", 80, "a.example", "/")),
        ("https://a.example:81/b?c:d@[e]", ("https", "a.example", 81, "a.example:81", "/b?c:d@[e]")),
        ("https://[2001:db8::1]/b", ("https", "2001:db8::1", 443, "[2001:db8::1]", "/b")),
        ("http://[2001:db8::1]:81/?", ("http", "2001:db8::1", 81, "[2001:db8::1]:81", "/?")),
        ("https://a.example:81", ("https", "a.example", 81, "a.example:81", "/")),
    ],
)
def test_the_parts_of_a_target(url: str, parts: tuple[str, str, int, str, str]) -> None:
    """A URL that was parsed is taken apart without looking at it again, and so is an origin."""
    assert parts_of(url) == parts
