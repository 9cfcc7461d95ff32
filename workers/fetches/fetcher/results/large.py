"""Large bodies: read from a file into a file, so that memory holds a piece at a time.

As contents.py and decoding.py do it in memory, but for one thing: a compressed body without its trailer counts as cut
off, because its content is not there any more to be checked. Blocks: for the keeper's threads (keeper.py).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, Final

from weir.workers.fetches.fetcher.results.contents import ALL_THERE, codings_of, is_bodiless, with_flaw
from weir.workers.fetches.fetcher.results.decoding import (
    MOST_CODINGS,
    PIECE,
    Decoded,
    Layer,
    Work,
    explained,
    most_s,
    worse,
)
from weir.workers.fetches.fetcher.results.streams import STREAMS
from weir.workers.fetches.jobs import Answer, Flaw

READ: Final = 2**18  # bytes of a file that are read together


@dataclass(frozen=True, kw_only=True, slots=True)
class LargeContent:
    """The content of an answer: `found` has no bytes, the file has all."""

    found: Decoded
    file: IO[bytes]
    size: int
    sha256: bytes


class PackedFile:
    """A file, as Layer reads a body: forwards, and a few bytes again where a stream ended earlier."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, 2)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> bytes:
        self._file.seek(piece.start)
        return self._file.read(piece.stop - piece.start)

    def startswith(self, beginning: bytes | tuple[bytes, ...], position: int) -> bool:
        return self[position : position + READ].startswith(beginning)


class PartsFile:
    """A file, as Layer writes its content; it cannot be read as parts."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._parts = file, 0

    def append(self, part: bytes) -> None:
        self._file.write(part)
        self._parts += 1

    def __getitem__(self, _some: slice) -> list[bytes]:
        return []

    def __len__(self) -> int:
        return self._parts


@contextmanager
def large_content(answer: Answer, max_body: int, *, keep: bool) -> Iterator[LargeContent]:
    """Return the content of the answer, as `content_of` does. Its files end with the context. Raises OSError."""
    with ExitStack() as files:
        came = answer.spilled.whole(answer.body) if answer.spilled else BytesIO(answer.body)
        names = [] if is_bodiless(answer) else codings_of(answer)
        found, file = Decoded(content=b""), came
        if not names and file.seek(0, 2) > max_body:
            found = explained(replace(found, flaw=Flaw.TOO_LARGE), [], max_body)
        elif names and (keep or answer.flaw is Flaw.NONE):
            found, file = _undone(came, names, max_body, is_whole=answer.flaw is Flaw.NONE, files=files)
        found = with_flaw(answer, found, max_body)
        size = file.seek(0, 2)
        if is_bodiless(answer) or (found.flaw not in ALL_THERE and not keep):
            file, size = BytesIO(), 0
        elif size > max_body:
            file.truncate(max_body)
            size = max_body
        is_spilled = answer.spilled is not None and file is came and size == answer.spilled.size
        digest = answer.spilled.sha256 if answer.spilled and is_spilled else _sha256(file)
        file.seek(0)
        yield LargeContent(found=found, file=file, size=size, sha256=digest)


def _undone(
    body: IO[bytes], names: list[str], max_body: int, *, is_whole: bool, files: ExitStack
) -> tuple[Decoded, IO[bytes]]:
    """Undo the codings, of which the last was applied last; returns what is wrong, and the file with the content."""
    work, known = Work(most_s(max_body)), [name for name in names if name in STREAMS]
    found, file = Decoded(content=b""), body
    if len(known) > MOST_CODINGS:
        return replace(found, flaw=Flaw.BROKEN, reason=f"the body is encoded {len(known)} times over"), file
    for depth, name in enumerate(reversed(known)):
        most = max_body if depth == len(known) - 1 else max_body + PIECE
        content = files.enter_context(TemporaryFile(prefix="weir-body-"))  # noqa: SIM115  `files` closes it
        flaw, reason = Layer(name, most, work, PartsFile(content)).undo(
            PackedFile(file), is_whole=is_whole and found.flaw is Flaw.NONE
        )
        found = worse(found, Decoded(content=b"", flaw=flaw, reason=reason))
        if content.tell() or flaw is not Flaw.BROKEN:  # broken from its beginning: the body itself
            file = content
    if file.seek(0, 2) > max_body:
        found = worse(found, Decoded(content=b"", flaw=Flaw.TOO_LARGE))
    return explained(found, names, max_body), file


def _sha256(file: IO[bytes]) -> bytes:
    digest = sha256()
    file.seek(0)
    while piece := file.read(READ):
        digest.update(piece)
    return digest.digest()
