"""Log files, as they lie in /var/log: plain, or packed by gzip, bzip2 or xz; and stdin."""

import bz2
import gzip
import lzma
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

STDIN = "-"
LONGEST_LINE = 65_536  # bytes; what is longer is read as several lines: a file without line ends fills no memory
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


class CannotBeRead(ValueError):
    """The file is missing, may not be read, or is damaged; the message says which."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that can be read more than once."""

    name: str  # as the user gave it
    path: Path
    changed: datetime  # UTC: nothing in it is later

    def lines(self) -> Iterator[str]:
        """Yield its lines without their ends. Bytes that are not UTF-8 are kept as lone surrogates.

        Raises CannotBeRead.
        """
        try:
            with self._opened() as file:
                while line := file.readline(LONGEST_LINE):
                    yield line.rstrip(b"\r\n").decode(errors="surrogateescape")
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise CannotBeRead(f"{self.name}: {error}") from error

    def _opened(self) -> BinaryIO:
        with self.path.open("rb") as file:
            start = file.read(8)
        for magic, opener in _OPENERS:
            if start.startswith(magic):
                return cast("BinaryIO", opener(self.path, "rb"))
        return self.path.open("rb")


@contextmanager
def opened(names: list[str]) -> Iterator[list[LogFile]]:
    """Give the files, each once; stdin is copied to a temporary file, as logs are read twice. Raises CannotBeRead."""
    with ExitStack() as stack:
        yield [_file(name, stack) for name in dict.fromkeys(names)]


def _file(name: str, stack: ExitStack) -> LogFile:
    if name == STDIN:
        copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="weir-log-"))  # noqa: SIM115  the stack does
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        return LogFile(name, Path(copy.name), datetime.now(UTC))
    path = Path(name)
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        path.open("rb").close()
    except OSError as error:
        raise CannotBeRead(f"{name}: {error.strerror}.") from error
    return LogFile(name, path, changed)
