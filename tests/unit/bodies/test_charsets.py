"""A body is text in the charset that browsers would find, or the likeliest one, and never an error."""

import time

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.workers.fetches.bodies.charsets import GUESSED_FROM, charset_of, text_of

HTML = "text/html"
CYRILLIC_A = "\N{CYRILLIC SMALL LETTER A}"
KURSK = "Соловьи поют в саду, и вся деревня слушает их до утра. " * 20


def with_type(content_type: str) -> list[list[str]]:
    return [["Server", "fake"], ["content-TYPE", content_type]]


@for_each(
    ("content", "content_type", "text"),
    [
        (b"\xef\xbb\xbfh\xc3\xa9", "text/html; charset=iso-8859-1", "hé"),  # a mark goes before the header
        ("hé".encode("utf-16"), "text/plain; charset=utf-8", "hé"),
        (b"\x80", "text/plain; charset=iso-8859-1", "€"),  # as browsers read that label
        (b"\xe9", 'text/plain; Charset="LATIN1"', "é"),
        (b"<meta charset=koi8-r>\xc1", f"{HTML}; charset=utf-8", "<meta charset=koi8-r>\N{REPLACEMENT CHARACTER}"),
        (b"<meta charset=koi8-r>\xc1", HTML, f"<meta charset=koi8-r>{CYRILLIC_A}"),
        (b"<meta http-equiv=content-type content='text/html; charset=cp1251'>\xe0", HTML, None),
        (b"<?xml version='1.0' encoding='iso-8859-5'?><a>\xd0</a>", "application/xml", None),
        (b"<meta charset=utf-16>h\xc3\xa9", HTML, "<meta charset=utf-16>hé"),  # whose ASCII can be read
        (b"h\xc3\xa9", "", "hé"),
        (b"h\xe9 \x80", "", None),
        (b"", HTML, ""),
        (b"\xff\x00\xfe", "image/png", None),
        (b"x" * 10, "text/plain; charset=punycode", "x" * 10),  # Python's own codecs are no charsets
        (b"\\u0041", "text/plain; charset=unicode_escape", "\\u0041"),
        (b"eA==", "text/plain; charset=base64", "eA=="),
        (b"x", "text/plain; charset=nobody-knows", "x"),
        (b"x", "text/plain; charset=" + "a" * 9_999, "x"),
    ],
)
def test_text(content: bytes, content_type: str, text: str | None) -> None:
    """The WHATWG's order: byte order mark, header, what the document declares; then UTF-8, or a guess."""
    found = text_of(content, with_type(content_type))
    assert isinstance(found, str)
    assert text is None or found == text
    if content_type == "application/xml" or b"cp1251" in content:
        assert CYRILLIC_A in found


@for_each("charset", ["cp1251", "koi8-r", "iso-8859-5"])
def test_russian_is_recognised_without_a_label(charset: str) -> None:
    """Of a long text, from its beginning."""
    assert text_of((KURSK * 50).encode(charset), []).startswith(KURSK[:50])


@for_each(
    ("content", "text"),
    [
        (KURSK.encode()[:-3], KURSK[:50]),  # cut off in the middle of a character
        ("é".encode()[:1] + KURSK.encode(), KURSK),
        (KURSK.encode() + b"\xff" + KURSK.encode(), KURSK),
        ((KURSK * 50).encode() + b"\xff", KURSK),
        (("x" + KURSK * 50).encode() + b"\xff", KURSK),  # the beginning may be cut in the middle of a character
        ("naïve café".encode() + b"\xc3", "naïve café"),
    ],
)
def test_utf_8_with_a_wrong_byte_is_utf_8(content: bytes, text: str) -> None:
    """Such as a body that was cut off (WEIR_FETCH_KEEP_INCOMPLETE): the rest is not read as Western European."""
    assert charset_of(content, "") == "utf-8"
    assert text in text_of(content, [])


@for_each("charset", ["cp1251", "cp1252", "gb18030", "shift_jis", "euc_jp", "euc_kr", "big5", "koi8-r", "cp1253"])
def test_other_charsets_are_not_utf_8(charset: str) -> None:
    """Whatever bytes beyond ASCII happen to make a character."""
    for text in (
        KURSK,
        "日本語のテキスト。" * 30,
        "한국어 텍스트 " * 30,
        "中文文本的内容" * 30,
        "été à Noël",
        "Ωραίος",
    ):
        content = text.encode(charset, "ignore")
        assert content.isascii() or charset_of(content, "") != "utf-8", text


@given(st.binary(max_size=300), st.text(max_size=60) | st.sampled_from(["text/html", "text/xml; charset=utf-7"]))
def test_no_bytes_and_no_header_raise(content: bytes, content_type: str) -> None:
    """A stranger chose both."""
    text_of(content, with_type(content_type))


@for_each("headers", [None, {}, "x", [["Content-Type"]], [["Content-Type", 1]], [7]])
def test_odd_headers_are_no_headers(headers: object) -> None:
    """The column has JSON."""
    assert text_of(b"x", headers) == "x"


@for_each(
    "content",
    [
        b"\x80" + bytes(range(256)) * 40_000,
        b"<meta " * 2_000_000 + b"\xff",
        (b"<meta" + b" a=" * 5_000 + b"\xff") * 600,
        b"\xff" + "日本語".encode("euc_jp") * 1_500_000,
    ],
)
def test_a_guess_takes_a_bounded_time(content: bytes) -> None:
    """Ten megabytes of what no charset fits: only the beginning is looked at."""
    began = time.thread_time()
    charset_of(content, "")
    assert time.thread_time() - began < 1.0
    assert len(content) > GUESSED_FROM
