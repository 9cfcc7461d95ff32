"""The beginning of a body that a stranger chose, as text that does nothing."""

from tests.cases import for_each
from weir.workers.fetches.reports.preview import MOST, preview


def shown(body: bytes, content_type: str = "text/plain") -> str:
    return preview(body, len(body), [["Content-Type", content_type]]).text


@for_each(
    ("body", "content_type", "text"),
    [
        ("grün".encode(), "text/html", "grün"),
        ("grün".encode("latin-1"), "text/html; charset=ISO-8859-1", "grün"),
        ("grün".encode("utf-16"), 'text/plain; charset="utf-16"', "grün"),
        ("grün".encode("latin-1"), "text/html", "grün"),
        (b"plain", "text/html; charset=no-such", "plain"),
        (b"plain", "text/html; charset=rot13", "plain"),
        (b"plain", "text/html; charset=hex", "plain"),
        (b"plain", "text/html; charset=idna", "plain"),
        (b"plain", "text/html; charset=undefined", "plain"),
        (b"plain-", "text/html; charset=punycode", "plain-"),
        (b"a\r\nb\tc", "text/plain", "a\nb\tc"),
        (b"a long text with \x1b[31m in it", "text/plain", "a long text with \N{SYMBOL FOR ESCAPE}[31m in it"),
        ("a\u202eb\u200bc\x7f\x9b\u2028".encode(), "text/plain", "a\\u{202e}b\\u{200b}c\u2421\\u{9b}\\u{2028}"),
        (b"", "", ""),
    ],
)
def test_text_is_decoded_and_what_shows_nothing_is_made_visible(body: bytes, content_type: str, text: str) -> None:
    """By the charset that the site names, where it is one of text; nothing controls a terminal or turns text round."""
    assert shown(body, content_type) == text


def test_a_body_that_is_no_text_is_not_shown() -> None:
    """Such as an image."""
    found = preview(bytes(range(256)), 256, [["content-type", "image/png"]])
    assert (found.text, found.is_binary, found.content_type, found.size) == ("", True, "image/png", 256)


def test_a_long_body_is_cut() -> None:
    """It says so, and how long it is."""
    found = preview(b"x" * MOST, MOST + 1, [])
    assert (len(found.text), found.is_cut, found.size) == (MOST, True, MOST + 1)


@for_each("headers", [None, {}, "x", [7, ["a"], ["content-type", 7]]])
def test_headers_of_any_form_are_taken(headers: object) -> None:
    """The column is JSON, which others may have written."""
    assert preview(b"x", 1, headers).content_type == ""
