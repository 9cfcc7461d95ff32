"""Writes headers as they are transmitted: folded, and so that a reader sees each text exactly as it was given.

A line has at most 78 characters if it can be folded, and at most 998 in any case (RFC 5322, 2.1.1). Text in ASCII is
not encoded, unless a reader could take it for encoded words.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from weir.workers.mail.headers import words
from weir.workers.mail.headers.texts import CannotBeWritten

LONGEST_LINE = 998
_LONGEST_FOLDED = 78
_LONGEST_ENCODED = 76  # RFC 2047, 2
_ATOM = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+"
_ATOMS = re.compile(rf"{_ATOM}(?: {_ATOM})*")
_SPECIAL = re.compile(r'[()<>\[\]:;@\\,."]')
_BLANK = re.compile(r"(?<=\S) (?=\S)")  # where a line can be folded
_PERCENT_ENCODED = re.compile(r"%[0-9A-F]{2}(?:%[89AB][0-9A-F])*|.")  # one character
_CHARSET = "utf-8''"
_LONGEST_SECTION = 50  # characters of a file's name that one parameter has (RFC 2231, 3)


class HeaderValue(str):
    """A header's value, exactly as it is transmitted between the colon and the last line end."""

    __slots__ = ()


def text(name: str, value: str) -> HeaderValue:
    """Return a header of free text, the only kind that may have encoded words anywhere (RFC 2047, 5 (1))."""
    pieces = _BLANK.split(value)
    if _is_ascii(value) and not words.could_be_there(value) and _fits(name, pieces):
        return _folded(name, pieces)
    return _folded(name, words.encoded(value, _room(name)))


def mailboxes(name: str, found: Iterable[tuple[str, str]]) -> HeaderValue:
    """Return a header of names and addresses. An address is never encoded (RFC 2047, 5 (3))."""
    listed = [[*phrase(called, _room(name)), f"<{address}>" if called else address] for called, address in found]
    for each in listed[:-1]:
        each[-1] += ","
    return _folded(name, [piece for each in listed for piece in each])


def phrase(called: str, room: int = words.LONGEST) -> list[str]:
    """Return the words of a name: unchanged, quoted or encoded."""
    if not _is_plain(called):
        return words.encoded(called, room)
    return called.split() if _ATOMS.fullmatch(called) or not called else [quoted(called)]


def structured(name: str, value: str) -> HeaderValue:
    """Return a header in which nothing may be encoded, such as a list of URLs. Raises CannotBeWritten."""
    pieces = value.split()
    if not (value.isascii() and value.isprintable() and _fits(name, pieces)) or words.has_one(value):
        raise CannotBeWritten(f"The header {name} has ASCII characters only, and no long words, but is {value!r}.")
    return _folded(name, pieces)


def parameters(name: str, value: str, given: Sequence[str]) -> HeaderValue:
    """Return a header of a part: a value and its parameters, which are already in their written form."""
    *first, last = [value, *given]
    return _folded(name, [*(f"{piece};" for piece in first), last])


def file_name(called: str) -> list[str]:
    """Return the parameters that give the name of a file (RFC 2183, RFC 2231).

    A name without characters that some programs decode in their own way is quoted, which every program reads. Other
    names are percent-encoded, in several parameters if they are long.
    """
    if _is_plain(called) and not set(called) & {'"', "\\", "%"}:
        return [f'filename="{called}"']
    value = quote(called, safe="")
    if len(value) <= _LONGEST_SECTION:
        return [f"filename*={_CHARSET}{value}"]
    sections = [_CHARSET]
    for letter in _PERCENT_ENCODED.findall(value):
        if len(sections[-1]) + len(letter) > _LONGEST_SECTION:
            sections.append("")
        sections[-1] += letter
    return [f"filename*{number}*={section}" for number, section in enumerate(sections)]


def mailbox(called: str, address: str) -> str:
    """Return name and address as one text, for APIs. Letters beyond ASCII are not encoded."""
    if not called:
        return address
    is_bare = not _SPECIAL.search(called) and words.BEGIN not in called and called == called.strip()
    return f"{called if is_bare else quoted(called)} <{address}>"


def quoted(value: str) -> str:
    """Return a quoted string (RFC 5322, 3.2.4)."""
    return '"{}"'.format(re.sub(r'(["\\])', r"\\\1", value))


def _is_plain(value: str) -> bool:
    """Return whether every reader takes this name literally, whatever stands before and after it."""
    return _is_ascii(value) and words.BEGIN not in value and "  " not in value


def _is_ascii(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


def _fits(name: str, pieces: list[str]) -> bool:
    return len(name) + 2 + max(map(len, pieces), default=0) <= LONGEST_LINE


def _room(name: str) -> int:
    """Return how long an encoded word may be on the same line as the header's name."""
    return _LONGEST_ENCODED - len(name) - 2


def _folded(name: str, pieces: list[str]) -> HeaderValue:
    """Return the pieces, with a blank or a line break before each but the first."""
    longest = _LONGEST_ENCODED if any(piece.startswith(words.BEGIN) for piece in pieces) else _LONGEST_FOLDED
    folded: list[str] = []
    width = len(name) + 1
    for piece in pieces:
        is_new = bool(folded) and width + 1 + len(piece) > longest
        width = len(piece) + 1 + (0 if is_new else width)
        folded.append(f"\r\n {piece}" if is_new else f" {piece}")
    return HeaderValue("".join(folded)[1:])
