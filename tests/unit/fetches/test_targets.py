"""Targets: a table of texts, and of what becomes of each.

Texts that are meant to get past the guard are in test_bypass_forms.py.
"""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.workers.fetches.targets import MAX_LENGTH, InvalidTarget, Target, keeps_origin, parse_target


@for_each(
    ("text", "url", "site"),
    [
        ("http://example.com/", "http://example.com/", "example.com"),
        ("http://example.com", "http://example.com/", "example.com"),
        ("http://example.com#part", "http://example.com/", "example.com"),
        ("http://example.com?", "http://example.com/?", "example.com"),
        ("http://example.com?a=b", "http://example.com/?a=b", "example.com"),
        ("http://example.com:8080", "http://example.com:8080/", "example.com:8080"),
        ("http://[::1]", "http://[::1]/", "[::1]"),
        ("https://example.com/a/b?c=d&e=f", "https://example.com/a/b?c=d&e=f", "example.com"),
        ("HTTPS://Example.COM/Page", "https://example.com/Page", "example.com"),
        ("https://example.com./", "https://example.com/", "example.com"),
        ("  https://example.com/  ", "https://example.com/", "example.com"),
        ("https://example.com/page#part", "https://example.com/page", "example.com"),
        ("http://example.com:80/", "http://example.com/", "example.com"),
        ("https://example.com:443/", "https://example.com/", "example.com"),
        ("https://example.com:80/", "https://example.com:80/", "example.com:80"),
        ("http://example.com:443/", "http://example.com:443/", "example.com:443"),
        ("http://example.com:8080/x", "http://example.com:8080/x", "example.com:8080"),
        ("http://example.com:65535/", "http://example.com:65535/", "example.com:65535"),
        ("http://localhost/", "http://localhost/", "localhost"),
        ("http://under_score.example/", "http://under_score.example/", "under_score.example"),
        ("http://4chan.example/", "http://4chan.example/", "4chan.example"),
        ("http://1.2.3.4/", "http://1.2.3.4/", "1.2.3.4"),
        ("http://1.2.3.4:81/", "http://1.2.3.4:81/", "1.2.3.4:81"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]/", "[2001:db8::1]"),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1]:8080/", "[::1]:8080"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://example。com/", "http://example.com/", "example.com"),
        ("http://example.com/ä?q=ü", "http://example.com/%C3%A4?q=%C3%BC", "example.com"),
        ("http://example.com/a b", "http://example.com/a%20b", "example.com"),
        ("http://example.com/a%2Fb%20c", "http://example.com/a%2Fb%20c", "example.com"),
        ("http://example.com/a/../b", "http://example.com/b", "example.com"),
        (f"http://{'a' * 63}.example/", f"http://{'a' * 63}.example/", f"{'a' * 63}.example"),
    ],
)
def test_a_url_is_brought_into_the_one_form_in_which_it_is_sent(text: str, url: str, site: str) -> None:
    """Host, port and escapes are normalised, the fragment is dropped; the site is that host."""
    assert parse_target(text) == Target(url=url, host=site)


@for_each(
    ("text", "reason"),
    [
        ("", "not a URL"),
        ("   ", "not a URL"),
        ("example.com", "write it whole"),
        ("/page", "write it whole"),
        ("//example.com/x", "write it whole"),
        ("ftp://example.com/", "scheme 'ftp'"),
        ("http://", "no host"),
        ("http:///page", "no host"),
        ("https://user:secret@example.com/", "credentials"),
        ("https://user@example.com/", "credentials"),
        ("https://:@example.com/", "credentials"),
        ("http://example.com:65536/", "[Pp]ort"),
        ("http://example.com:-1/", "[Pp]ort"),
        ("http://example.com:http/", "[Pp]ort"),
        ("http://1.2.3.256/", "neither a name nor an IPv4 address"),
        ("http://1.2.3.4.5/", "neither a name nor an IPv4 address"),
        ("http://example.0x/", "neither a name nor an IPv4 address"),
        ("http://[::1/", "is not an IPv6 address"),
        ("http://[::g]/", "is not an IPv6 address"),
        ("http://[]@", "credentials"),
        ("http://-a.example/", "not a host name"),
        ("http://a-.example/", "not a host name"),
        ("http://a..example/", "not a host name"),
        ("http://.example/", "not a host name"),
        ("http://./", "not a host name"),
        ("http://example.com../", "not a host name"),
        ("http://*.example.com/", "not a host name"),
        (f"http://{'a' * 64}.example/", "not a host name"),
        (f"http://{'a.' * 127}example/", "not a host name"),
        ("http://example.com/\n", "control characters"),
        ("http://example.com/a\r\nHost: evil.example", "control characters"),
        ("http://example.com/\0", "control characters"),
        ("http://example.com/\ud800", "half of a character"),
        ("http://example.com/caf\udce9", "the byte 0xE9, which is not UTF-8"),
        (f"http://example.com/{'x' * MAX_LENGTH}", f"longer than {MAX_LENGTH}"),
    ],
)
def test_what_is_not_fetched_is_refused_with_its_reason(text: str, reason: str) -> None:
    """Each refusal names the part of the text that is at fault."""
    with pytest.raises(InvalidTarget, match=reason):
        parse_target(text)


@given(
    host=st.from_regex(r"\A[a-z0-9]{1,5}(\.[a-z]{1,5}){1,3}\Z"),
    port=st.integers(1, 65535),
    path=st.text(st.characters(exclude_categories=["C"]), max_size=20),
)
def test_a_target_names_itself(host: str, port: int, path: str) -> None:
    """What was parsed once is parsed to the same again: a stored URL and its site never drift."""
    target = parse_target(f"https://{host}:{port}/{path}")
    assert parse_target(target.url) == target


@given(st.text(max_size=60) | st.text(max_size=60).map("http://".__add__))
def test_no_text_is_met_with_another_error(text: str) -> None:
    """Whatever is enqueued, it is a target or an InvalidTarget with a reason that can be stored."""
    try:
        said = parse_target(text).url
    except InvalidTarget as refusal:
        said = str(refusal)
    assert said


@given(st.from_regex(r"\Ahttps?://[a-z0-9._:\[\]%@-]{1,20}(/[ -~]{0,10})?\Z"))
def test_the_url_that_is_sent_goes_to_the_host_of_its_site(text: str) -> None:
    """A fetch is never sent to another host than the one whose site it waits in."""
    try:
        target = parse_target(text)
    except InvalidTarget:
        assume(False)
    authority = target.url.split("/")[2].partition("?")[0]
    assert authority == target.host


@for_each(
    ("url", "later", "stays"),
    [
        ("https://a.example/", "https://a.example/b?c", True),
        ("http://a.example/", "https://a.example/", True),
        ("https://a.example/", "http://a.example/", False),
        ("https://a.example:8443/", "http://a.example:8443/", False),
        ("http://a.example:8080/", "https://a.example:8080/", False),
        ("http://a.example/", "https://a.example:8443/", False),
        ("https://a.example/", "https://a.example:8443/", False),
        ("https://a.example/", "https://b.a.example/", False),
        ("https://a.example/", "https://a.example.b/", False),
        ("http://[2001:db8::1]/", "https://[2001:db8::1]/", True),
    ],
)
def test_a_redirect_stays_at_its_origin_if_scheme_host_and_port_stay(url: str, later: str, stays: bool) -> None:
    """A site that begins to encrypt stays at its origin; one that ceases to does not."""
    assert keeps_origin(url, later) is stays
