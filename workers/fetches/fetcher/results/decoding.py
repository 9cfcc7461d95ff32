"""Decoding: content codings, undone within a bound of bytes and of processor time. Pure.

All header lines together are one list (RFC 9110, 5.3). Bodies that break the standards, but that other programs read,
are read here, too: docs/explanation/wire.md has a table of them.
"""

import time
from dataclasses import dataclass, replace
from typing import Final, Protocol

from weir.workers.fetches.fetcher.results.streams import MEMBERS, RAW, STREAMS, Broken, Deflated, Stream
from weir.workers.fetches.jobs import Flaw

ACCEPT_ENCODING = "gzip, deflate"  # nothing has shown that br or zstd pays: they are read if a site sends them unasked
PIECE: Final = 4_096  # bytes that a stream is fed in one step: bytes that the stream does not use are copied
STEP: Final = 65_536  # bytes that a stream returns in one step, about: the time is checked between steps
MOST_CODINGS: Final = 2
NO_CODINGS: Final = frozenset({"", "identity"})
PLAIN_BODY: Final = 5 * 2**20  # bytes; honest bodies of this size take some 10 ms, or 20 if they are packed twice
MOST_S: Final = 0.08  # seconds of the processor for a body of at most that size, more in proportion for a larger one
SHOWN: Final = 100  # characters of the names of codings in a sentence


SEVERITY: Final = {
    Flaw.NONE: 0,
    Flaw.ODD: 1,
    Flaw.CUT: 2,
    Flaw.BROKEN: 2,
    Flaw.TOO_LARGE: 3,
    Flaw.TOO_LONG: 4,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """The content of a body, or as much of it as there is."""

    content: bytes  # if it is too large, one byte more than is allowed
    flaw: Flaw = Flaw.NONE
    reason: str = ""  # what is wrong, in words


def most_s(max_body: int) -> float:
    """Return the processor time that the body of one answer may take, in seconds."""
    return MOST_S * max(1.0, max_body / PLAIN_BODY)


def too_large(max_body: int) -> str:
    """Return the sentence about a body of more than `max_body` bytes."""
    return f"the body is larger than {max_body} bytes (WEIR_FETCH_MAX_BODY)"


def codings(values: list[str]) -> list[str]:
    """Return the names that these values of Content-Encoding list, in lower case, except `identity` and empty names."""
    names = (name.strip().lower() for value in values for name in value.split(","))
    return [name for name in names if name not in NO_CODINGS]


def decoded(
    body: bytes, names: list[str], max_body: int, *, is_whole: bool = True, budget_s: float | None = None
) -> Decoded:
    """Return the body without these codings, of which the last was applied last; of a flawed body, the part that came.

    With `is_whole` false, the rest of the body was not read, because it is too large: its early end is not a flaw.
    """
    work = Work(most_s(max_body) if budget_s is None else budget_s)
    known = [name for name in names if name in STREAMS]
    found = Decoded(content=body)
    if len(known) > MOST_CODINGS:
        return replace(found, flaw=Flaw.BROKEN, reason=f"the body is encoded {len(known)} times over")
    for depth, name in enumerate(reversed(known)):
        is_last = depth == len(known) - 1
        # Data that cannot be compressed any further grows a little when it is compressed again.
        parts: list[bytes] = []
        layer = Layer(name, max_body if is_last else max_body + PIECE, work, parts)
        flaw, reason = layer.undo(found.content, is_whole=is_whole and found.flaw is Flaw.NONE)
        content = b"".join(parts) or found.content * (flaw is Flaw.BROKEN)
        found = worse(found, Decoded(content=content, flaw=flaw, reason=reason))
    if len(found.content) > max_body:
        found = worse(found, Decoded(content=found.content[: max_body + 1], flaw=Flaw.TOO_LARGE))
    return explained(found, names, max_body)


def explained(found: Decoded, names: list[str], max_body: int) -> Decoded:
    """Return what was found, with the reason if it is too large, or if it has a coding that nobody knows."""
    if found.flaw is Flaw.TOO_LARGE:
        return replace(found, reason=too_large(max_body))
    if found.flaw is Flaw.NONE and (odd := [name for name in names if name not in STREAMS]):
        shown = ", ".join(map(repr, odd))[:SHOWN]
        return replace(found, flaw=Flaw.ODD, reason=f"taken as it came: no encoding is called {shown}")
    return found


def worse(before: Decoded, now: Decoded) -> Decoded:
    """Return the content of `now`, with the worse of the two flaws; if they are equally bad, with that of `before`."""
    return replace(max(before, now, key=lambda each: SEVERITY[each.flaw]), content=now.content)


class TimeOver(Exception):
    """The time is over."""


class Work:
    """The time of this thread that one body may take on the processor."""

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self._until = time.thread_time() + budget_s

    def go_on(self) -> None:
        """Raise TimeOver if the time is over."""
        if time.thread_time() > self._until:
            raise TimeOver(f"the body takes more than {self._budget_s:.2g} s of the processor to decompress")


class Packed(Protocol):
    """A body with its coding: bytes, or a file (large.py)."""

    def __getitem__(self, piece: slice, /) -> bytes: ...
    def startswith(self, beginning: bytes | tuple[bytes, ...], position: int, /) -> bool: ...
    def __len__(self) -> int: ...


class Parts(Protocol):
    """The content as far as it was read: a list, or a file (large.py)."""

    def append(self, part: bytes, /) -> None: ...
    def __getitem__(self, some: slice, /) -> list[bytes]: ...
    def __len__(self) -> int: ...


class Layer:
    """One coding of a body, undone to about one byte more than `most`, into `parts`."""

    def __init__(self, name: str, most: int, work: Work, parts: Parts) -> None:
        self._name, self._most, self._work = name, most, work
        self._parts = parts
        self._size = 0

    def undo(self, body: Packed, *, is_whole: bool) -> tuple[Flaw, str]:
        """Read the content into the parts; returns what is wrong with it."""
        flaw, reason = Flaw.NONE, ""
        try:
            flaw, reason = self._read(body)
        except Broken as error:
            flaw, reason = Flaw.BROKEN, f"the compressed body is broken: {error}"
        except TimeOver as error:
            flaw, reason = Flaw.TOO_LONG, str(error)
        if self._size > self._most:
            flaw = Flaw.TOO_LARGE
        elif flaw is Flaw.CUT and not is_whole:
            flaw, reason = Flaw.NONE, ""
        return flaw, reason

    def _read(self, body: Packed) -> tuple[Flaw, str]:
        """Read the streams, up to the end or beyond `most`. Raises Broken and TimeOver."""
        try:
            position, is_read = self._read_stream(body, 0, STREAMS[self._name]())
        except Broken:
            if self._name != "deflate" or len(self._parts):
                raise
            position, is_read = self._read_stream(body, 0, Deflated(RAW))
        while is_read and body.startswith(MEMBERS.get(self._name, ()), position):
            size = self._size
            try:
                position, is_read = self._read_stream(body, position, STREAMS[self._name]())
            except Broken:
                if self._size > size:
                    raise
                is_read = False
            if not is_read and self._size == size:
                return Flaw.ODD, "what follows the end of the compressed body cannot be read, and is left out"
        return (Flaw.NONE, "") if is_read else (Flaw.CUT, "the compressed body ends too early")

    def _read_stream(self, body: Packed, position: int, stream: Stream) -> tuple[int, bool]:
        """Read the stream that begins at this position; returns where it ends, and whether all of it came."""
        began = len(self._parts)
        while not stream.ended and self._size <= self._most:
            self._work.go_on()
            piece = body[position : position + PIECE] if stream.needs_input else b""
            if stream.needs_input and not piece:
                return position, not len(body) or stream.is_read(b"".join(self._parts[began:]))
            if content := stream.step(piece, min(STEP, self._most + 1 - self._size)):
                self._parts.append(content)
                self._size += len(content)
            position += len(piece)
        return position - len(stream.unused), stream.ended
