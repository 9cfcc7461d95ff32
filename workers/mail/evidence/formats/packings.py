"""Unpacks files: gzip, bzip2, xz and zstd, even one inside another. Some other packings are recognised and refused."""

import bz2
import gzip
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_LAYERS = 3  # levels of packings, and of archives in archives
ZIP = b"PK\x03\x04"
TAR = b"ustar"  # from its 258th byte
_OPENERS: tuple[tuple[bytes, Callable[..., object]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"\x5d\x00\x00", lzma.open),
    (b"\x28\xb5\x2f\xfd", zstd.open),
    *((bytes([0x50 + number, 0x2A, 0x4D, 0x18]), zstd.open) for number in range(16)),
)
# The beginnings of files that cannot be read here, what these files are, and which program turns them into a log.
_NOT_HERE = (
    (b"\x04\x22\x4d\x18", "packed by lz4", "lz4 -dc"),
    (b"\x02\x21\x4c\x18", "packed by lz4", "lz4 -dc"),
    (b"LZIP", "packed by lzip", "lzip -dc"),
    (b"\x89LZO", "packed by lzop", "lzop -dc"),
    (b"\x1f\x9d", "packed by compress", "zcat"),
    (b"7z\xbc\xaf\x27\x1c", "packed by 7-Zip", "7z x -so"),
    (b"Rar!", "packed by RAR", "unrar p -inul"),
    (b"LPKSHHRH", "a journal of journald", "journalctl -o json --file"),
    (b"SQLite format 3\0", "a database", "sqlite3"),
    (b"-----BEGIN PGP MESSAGE", "encrypted", "gpg -d"),
    (b"age-encryption.org", "encrypted", "age -d"),
    (b"Salted__", "encrypted", "openssl"),
)
_ERRORS = (
    OSError,
    EOFError,
    RuntimeError,  # an encrypted zip archive; NotImplementedError is a subclass
    zlib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    zipfile.BadZipFile,
    tarfile.TarError,
)


class Damaged(ValueError):
    """The file, or its rest, cannot be read; the message is a sentence that says what to do."""

    def __init__(self, why: str, *, only_rest: bool = False) -> None:
        super().__init__(why)
        self.only_rest = only_rest  # the lines before the damage are intact


@contextmanager
def said_of(name: str) -> Iterator[None]:
    """Raise Damaged, which names the file, for every error while it is unpacked."""
    try:
        yield
    except _ERRORS as error:
        why = f"{name} cannot be read to its end ({error}): give a copy that is whole."
        raise Damaged(why, only_rest=isinstance(error, EOFError)) from error


def refuse(name: str, start: bytes) -> None:
    """Raise Damaged if a file that begins with `start` has a form that is known, but cannot be read here."""
    for magic, what, program in _NOT_HERE:
        if start.startswith(magic):
            raise Damaged(f"{name} is {what}, and cannot be read here: give what comes out of it ({program}).")
    if any(start.startswith(magic) for magic, _ in _OPENERS):
        raise Damaged(f"{name} is packed more than {MOST_LAYERS} times: unpack it, and give what comes out of it.")


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and unpack it as often as it is packed, MOST_LAYERS times at most."""
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(path.open("rb"))
        for _ in range(MOST_LAYERS):
            start = file.read(8)
            file.seek(0)
            opener = next((opener for magic, opener in _OPENERS if start.startswith(magic)), None)
            if opener is None:
                break
            file = stack.enter_context(cast("BinaryIO", opener(file, "rb")))
        yield file


def start_of(path: Path, size: int) -> bytes:
    """Return the first bytes of a file's unpacked content."""
    with unpacked(path) as file:
        return file.read(size)
