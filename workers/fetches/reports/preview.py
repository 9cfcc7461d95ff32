"""Preview: a body that a stranger chose, as text that is harmless to show. Pure."""

import unicodedata
from dataclasses import dataclass
from typing import Final

from weir.workers.fetches.bodies.charsets import charset_of, content_type_of, text_of

MOST: Final = 65_536  # bytes that are shown
KEPT: Final = "\n\t"
HIDDEN: Final = frozenset(
    {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
)  # categories of characters that are invisible, or turn the direction of text round
PICTURES: Final = 0x2400  # Unicode's pictures of the control characters begin here
DELETE, PICTURE_OF_DELETE, FIRST_PRINTABLE = 0x7F, "\N{SYMBOL FOR DELETE}", 0x20
BINARY_SHARE: Final = 0.1  # a body in which more than this share of the bytes occurs in no text is binary
_NO_TEXT: Final = bytes(set(range(FIRST_PRINTABLE)) - set(b"\t\n\f\r\x1b"))
_WITH_NUL: Final = ("utf-16", "utf-32")  # encodings whose text has NUL bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyPreview:
    """The beginning of a body."""

    text: str  # "" if it is binary; invisible characters are made visible
    size: int  # bytes of the whole body
    content_type: str  # as the site named it
    charset: str  # with which the text was decoded
    is_binary: bool
    is_cut: bool  # the body is longer than the text


def preview(beginning: bytes, size: int, headers: object) -> BodyPreview:
    """Return what can be shown of a body of `size` bytes; `headers` has the headers as they are stored."""
    content_type = content_type_of(headers)
    shown = beginning[:MOST]
    charset = charset_of(shown, content_type)
    is_binary = _is_binary(shown, charset)
    text = "" if is_binary else visible(text_of(shown, headers).replace("\r\n", "\n"))
    return BodyPreview(
        text=text,
        size=size,
        content_type=content_type,
        charset=charset,
        is_binary=is_binary,
        is_cut=size > len(shown),
    )


def visible(text: str) -> str:
    """Return the text with a visible sign for each character that is invisible, or changes how others are shown."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    code = ord(character)
    if character in KEPT or unicodedata.category(character) not in HIDDEN:
        return character
    if code < FIRST_PRINTABLE:
        return chr(PICTURES + code)
    return PICTURE_OF_DELETE if code == DELETE else f"\\u{{{code:x}}}"


def _is_binary(shown: bytes, charset: str) -> bool:
    if charset.startswith(_WITH_NUL):
        return False
    no_text = len(shown) - len(shown.translate(None, _NO_TEXT))
    return b"\0" in shown or no_text > BINARY_SHARE * len(shown)
