"""Spilled bodies: the beginning of a large body, in a temporary file, which the system removes with its process."""

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from tempfile import TemporaryFile
from typing import IO


@dataclass(eq=False)
class SpilledBody:
    """What came of a large body, encoded as on the wire. One thread at a time may write, read or close it."""

    size: int = 0  # bytes, those that are being written among them
    writing: Future[None] | None = None  # the last write

    def __post_init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._digest = sha256()

    def write(self, data: bytes) -> None:
        """Append to the file, which the first call makes. Blocks. Raises OSError."""
        if self._file is None:
            self._file = TemporaryFile(prefix="weir-body-")  # noqa: SIM115  closed by `close`, or with its process
        self._file.write(data)
        self._digest.update(data)

    def whole(self, rest: bytes) -> IO[bytes]:
        """Append the rest of the body, and return the file, at its beginning. Blocks. Raises OSError."""
        if self.writing is not None:
            self.writing.result()
        self.size += len(rest)
        self.write(rest)
        assert self._file is not None  # noqa: S101  `write` has made it
        self._file.flush()
        self._file.seek(0)
        return self._file

    @property
    def sha256(self) -> bytes:
        """Return the hash of what was written."""
        return self._digest.digest()

    def close(self) -> None:
        """Remove the file, whatever of it could not be written. May be called twice."""
        if self._file is not None:
            with suppress(OSError):  # a full disk does not take what is left in the buffer
                self._file.close()
