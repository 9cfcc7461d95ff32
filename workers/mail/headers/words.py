"""Writes and reads encoded words (RFC 2047), which are text of any letters, in ASCII.

Python's e-mail package is not used for them. Its versions write some texts so that they read as another text. They also
decode what a text contains by chance, or because an attacker has put it there, such as `=?utf-8?q?=0D=0ABcc:...?=`
(cpython#121650, #128110, #144156).
"""

import re
from binascii import a2b_base64, a2b_qp, b2a_base64
from collections.abc import Callable
from string import ascii_letters, digits

LONGEST = 75  # RFC 2047, 2
BEGIN, END = "=?", "?="
_AROUND = len("=?utf-8?q??=")
_LEAST_ROOM = 32  # enough for one letter of any alphabet
_WORTH_READING = 4  # characters by which the encoding Q may be longer than base64, because a person can read Q
_AS_THEY_ARE = frozenset(f"{ascii_letters}{digits}!*+-/")  # need no encoding, even in a name (RFC 2047, 5 (3))
_WORD = r"=\?([!#-'*+\-0-9A-Z^_`a-z{|}~]+)\?([BQbq])\?([!->@-~]*)\?="
_ONE = re.compile(_WORD)
_SIGNS = re.compile(r'([ \t\r\n"(),:;<=>@\[\]\\]+)')  # between words, in headers of any grammar
_NOT_ASCII = re.compile(r"[^\t\r\n -~]")
_SOME = re.compile(rf"(?<!\S){_WORD}(?:\s+{_WORD})*(?!\S)")


def encoded(text: str, room: int = LONGEST) -> list[str]:
    """Return encoded words that decode to exactly this text; what separates them means nothing.

    The first word has at most `room` characters, or _LEAST_ROOM if that is more.
    """
    in_q = {letter: _in_q(letter) for letter in set(text)}
    size = len(text.encode())
    if sum(len(in_q[letter]) for letter in text) <= (size + 2) // 3 * 4 + _WORTH_READING:
        pieces = _pieces(text, room, lambda letter: len(in_q[letter]), lambda within: within)
        return [f"=?utf-8?q?{''.join(in_q[letter] for letter in piece)}?=" for piece in pieces]
    pieces = _pieces(text, room, lambda letter: len(letter.encode()), lambda within: within // 4 * 3)
    return [f"=?utf-8?b?{b2a_base64(piece.encode(), newline=False).decode()}?=" for piece in pieces]


def decoded(text: str) -> str:
    """Return the text with its encoded words decoded; words that cannot be decoded stay unchanged."""
    return _SOME.sub(lambda found: "".join(map(_decoded, _ONE.finditer(found[0]))), text) if BEGIN in text else text


def in_ascii(value: str) -> str:
    """Return a header that Weir has not written, with each word that is not ASCII encoded; other words stay unchanged.

    Bytes are read as UTF-8 if they are valid UTF-8, else as ISO 8859-1. Nothing is decoded.
    """
    given = value.encode("ascii", "surrogateescape")
    try:
        text = given.decode()
    except UnicodeDecodeError:
        text = given.decode("iso-8859-1")
    if not _NOT_ASCII.search(text):
        return text
    parts = ["", *_SIGNS.split(text)]  # signs and words, in turn
    said: list[str] = []
    held: list[str] = []  # words to encode together, because blanks between encoded words mean nothing
    for sign, word in zip(parts[::2], parts[1::2], strict=True):
        is_encoded = _NOT_ASCII.search(word) is not None
        if held and not (is_encoded and sign.isspace()):
            said.append(_together(held))
            held = []
        if not held:
            said.append(sign)
        (held if is_encoded else said).append(word)
    return "".join([*said, _together(held)])


def could_be_there(text: str) -> bool:
    """Return whether a reader may find an encoded word in the text, even a reader that allows blanks in such words."""
    return 0 <= text.find(BEGIN) < text.rfind(END)


def has_one(text: str) -> bool:
    """Return whether the text has an encoded word, even inside a longer word."""
    return _ONE.search(text) is not None


def are_all(text: str) -> bool:
    """Return whether the text consists of encoded words only."""
    return _SOME.fullmatch(text) is not None


def _together(several: list[str]) -> str:
    return "\r\n ".join(encoded(" ".join(several))) if several else ""


def _in_q(letter: str) -> str:
    if letter in _AS_THEY_ARE:
        return letter
    return "_" if letter == " " else "".join(f"={byte:02X}" for byte in letter.encode())


def _pieces(text: str, room: int, size: Callable[[str], int], fitting: Callable[[int], int]) -> list[str]:
    """Cut the text between letters, so that each piece fits into a word."""
    pieces, begin, taken = [], 0, 0
    most = fitting(max(room, _LEAST_ROOM) - _AROUND)
    for place, letter in enumerate(text):
        taken += size(letter)
        if taken > most:
            pieces.append(text[begin:place])
            begin, taken, most = place, size(letter), fitting(LONGEST - _AROUND)
    return [*pieces, text[begin:]]


def _decoded(word: re.Match[str]) -> str:
    charset, encoding, content = word[1].partition("*")[0], word[2].lower(), word[3].encode()
    try:
        return (a2b_qp(content, header=True) if encoding == "q" else a2b_base64(content)).decode(charset, "replace")
    except (LookupError, ValueError):  # Python does not know the charset, or the name is not one
        return word[0]
