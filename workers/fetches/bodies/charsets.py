"""Charsets: a body of bytes that a stranger chose, as text. Pure.

The order is the WHATWG's (https://encoding.spec.whatwg.org/, https://html.spec.whatwg.org/#determining-the-character-encoding):
the byte order mark, the header Content-Type, what HTML or XML declares. w3lib finds these, and reads labels as browsers
do. Without them, the body is in UTF-8 if its bytes are, or nearly all at its beginning; otherwise charset-normalizer
guesses, from the beginning alone.
"""

import codecs
import re
from collections.abc import Sequence
from typing import Final

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

GUESSED_FROM: Final = 16_384  # bytes: more make a guess slower, and hardly better
FEWEST: Final = 24  # bytes beyond ASCII: from fewer, a guess is mostly wrong
LIKELIEST: Final = "cp1252"  # browsers' own, of what is neither declared nor UTF-8
UTF_8: Final = "utf-8"
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
FEWEST_RIGHT: Final = 10  # characters of UTF-8, for each that is none
_ASCII_TEXT: Final = re.compile(r"[\x00-\x7f]+")
_ASCII: Final = bytes(range(128))
# Python's own codecs, which are no charsets, or slow.
_NOT_OF_SITES: Final = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"}
)


def text_of(content: bytes, headers: object) -> str:
    """Return the body as text; `headers` are those of its fetch, as they are stored. Never raises for any bytes."""
    charset = charset_of(content, content_type_of(headers))
    _, mark = read_bom(content)
    return to_unicode(content[len(mark) :] if mark else content, charset)


def charset_of(content: bytes, content_type: str) -> str:
    """Return the charset of a body, as Python names it."""
    marked, _ = read_bom(content)
    if marked:
        return marked
    if charset := _known(http_content_type_encoding(content_type)):
        return charset
    declared = _known(html_body_declared_encoding(content[:GUESSED_FROM]))
    if declared:  # of a text whose ASCII could be read
        return UTF_8 if declared.startswith(("utf-16", "utf-32", "utf_16", "utf_32")) else declared
    beginning = content[:GUESSED_FROM]
    return UTF_8 if _is_utf_8(content) or _is_mostly_utf_8(beginning) else _guessed(beginning)


def content_type_of(headers: object) -> str:
    """Return the Content-Type among stored headers; "" without one."""
    for pair in headers if isinstance(headers, Sequence) else ():
        match pair:
            case [str(name), str(value)] if name.lower() == "content-type":
                return value
    return ""


def _known(label: str | None) -> str | None:
    """Return the name of an encoding of text, as Python has it; None if there is none, or if it is not for sites."""
    try:
        charset = codecs.lookup(resolve_encoding(label or "") or "").name
        b"x".decode(charset, "replace")  # refuses encodings that are not for text
    except (LookupError, ValueError):
        return None
    return None if charset.replace("-", "_") in _NOT_OF_SITES else charset


def _is_utf_8(content: bytes) -> bool:
    try:
        content.decode(UTF_8)
    except UnicodeDecodeError:
        return False
    return True


def _is_mostly_utf_8(beginning: bytes) -> bool:
    """Return whether characters of UTF-8 begin a text that is not UTF-8 throughout: it was cut off, or a byte is wrong.

    In texts of other charsets, few bytes beyond ASCII happen to make a character.
    """
    beyond = _ASCII_TEXT.sub("", codecs.getincrementaldecoder(UTF_8)("replace").decode(beginning))  # but a cut end
    return len(beyond) > FEWEST_RIGHT * beyond.count(REPLACEMENT)


def _guessed(beginning: bytes) -> str:
    if len(beginning.translate(None, _ASCII)) < FEWEST:
        return LIKELIEST
    from charset_normalizer import from_bytes  # noqa: PLC0415  seldom needed, and it takes four times as long as w3lib

    best = from_bytes(beginning).best()
    return _known(best.encoding if best else None) or LIKELIEST
