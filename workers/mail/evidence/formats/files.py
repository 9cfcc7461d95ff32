"""Reads log files as they lie in /var/log: plain, packed or in archives, in any of Unicode's encodings; also stdin.

A file that cannot be unpacked or read to its end raises `Damaged`, with a sentence that says what to do. The other
files are still read, because the lines in them still prove something.
"""

import fnmatch
import io
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, BinaryIO, cast

from weir.workers.mail.evidence.formats import packings
from weir.workers.mail.evidence.formats.packings import Damaged

STDIN = "-"
LONGEST_LINE = 65_536  # bytes; a longer line is read in pieces, so that a file without line ends fits into memory
OVERLAP = 1_000  # characters that each piece repeats from the piece before, more than a Message-ID has
MOST_UNPACKED = 16 * 2**30  # bytes out of one packed file, or of all files of one archive, which are copied to a folder
MOST_FILES = 10_000  # files of one archive
SNIFFED = 4_096  # bytes at a file's beginning that show its form
LATER_THAN_ALL = datetime(9_998, 1, 1, tzinfo=UTC)  # a year later is still a valid date
MOST = 0.6  # the share of a log's letters that is ASCII, at least
_BOMS = ((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_WIDE = ((0, "utf-16-be"), (1, "utf-16-le"))  # which byte of the two of an ASCII letter is NUL
_DATE = r"\d{4}-?\d\d-?\d\d(?:[-T_.]?\d\d(?:[-:]?\d\d){0,2})?"
_PACKED = "gz|bz2|xz|lzma|zst|zstd|zip"
_ROTATED = re.compile(
    rf"(?:[.-](?:\d{{1,3}}|{_DATE}|{_PACKED}|tar|tgz|old|bak))+$|[._-]{_DATE}(?=\.log(?:\.(?:{_PACKED}))?$)"
)
_NUMBER = re.compile(r"[.-](\d{1,3})(?![\d-])")
_DATED = re.compile(r"\d{4}")


class CannotBeRead(ValueError):
    """The file is missing, or may not be read; the message says which file, and why."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that can be read more than once."""

    name: str  # as the user gave it; for a file in an archive, after the name of the archive
    path: Path
    changed: datetime  # when the file was last changed, in UTC: no line of it is later
    host: str  # the host of lines that name no host: what the operator says, or else the file's family
    damage: str = ""  # why nothing of the file can be read

    def lines(self) -> Iterator[str]:
        """Yield the lines without their line ends. Raises Damaged.

        Bytes that are not UTF-8 become lone surrogates.
        """
        if self.damage:
            raise Damaged(self.damage)
        with packings.said_of(self.name):
            encoding = _encoding(packings.start_of(self.path, SNIFFED))
            with packings.unpacked(self.path) as file:
                wide = io.TextIOWrapper(file, encoding, errors="replace", newline="\n") if encoding else None
                most = max(MOST_UNPACKED, self.path.stat().st_size)
                yield from _lines(wide.readline if wide else file.readline, self.name, most)


def _lines(read_line: Callable[[int], bytes] | Callable[[int], str], name: str, most: int) -> Iterator[str]:
    begun, given = "", True  # the beginning of an incomplete line, and whether it was yielded already
    text = "\n"
    while chunk := read_line(LONGEST_LINE):
        most -= len(chunk)
        if most < 0:
            why = f"{name} is more than {MOST_UNPACKED:,} bytes without its packing: unpack it, and give what comes out"
            raise Damaged(why, only_rest=True)
        text = chunk if isinstance(chunk, str) else chunk.decode(errors="surrogateescape")
        ended = text.endswith("\n")
        *lines, last = (begun + (text.rstrip("\r\n") if ended else text)).split("\r")
        yield from lines
        given = ended or not lines
        if given:
            yield last
        begun = "" if ended else last[-OVERLAP:] if given else last
    if begun and not given:
        yield begun
    if not text.endswith(("\n", "\r")):
        why = f"{name} does not end where a line ends, as if more of it were missing: give a copy that is whole"
        raise Damaged(why, only_rest=True)


def _encoding(start: bytes) -> str:
    """Return the encoding of a file that has two or four bytes per letter; an empty string for other files."""
    if named := next((encoding for mark, encoding in _BOMS if start.startswith(mark)), ""):
        return named
    for at, encoding in _WIDE:
        of_ascii, others = start[at::2], start[1 - at :: 2]
        if of_ascii.count(0) > len(of_ascii) * MOST and others.count(0) < len(others) * (1 - MOST):
            return encoding
    return ""


@contextmanager
def opened(names: Collection[str], hosts: Collection[tuple[str, str]] = ()) -> Iterator[list[LogFile]]:
    """Yield the named files, each once, with those in archives unpacked. Raises CannotBeRead.

    stdin and pipes are copied to files, because logs are read more than once. `hosts` pairs host names with patterns of
    file names: a file that matches a pattern belongs to that host.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-logs-")))
        yield [file for name in dict.fromkeys(names) for file in _files(name, folder, hosts)]


def _files(name: str, folder: Path, hosts: Collection[tuple[str, str]]) -> Iterator[LogFile]:
    path, changed = Path(name), datetime.now(UTC)
    try:
        if name == STDIN:
            path = _copy_of(sys.stdin.buffer, folder)
        elif path.is_fifo():  # such as the shell's <(zcat mail.log.2.gz)
            with path.open("rb") as pipe:
                path = _copy_of(pipe, folder)
        else:
            changed = _time(path.stat().st_mtime)
            if not path.is_file():
                raise CannotBeRead(f"{name} is neither a file nor a pipe: give the log files themselves.")
            path.open("rb").close()
    except OSError as error:
        raise CannotBeRead(f"{name}: {error.strerror}.") from error
    found = [*_Archives(folder).files(name, path, changed)]
    for file_name, place, file_changed, damage in found:
        called = name if len(found) == 1 else file_name  # the archive's name, if that has only one file
        told = next((host for host, pattern in hosts if fnmatch.fnmatch(called, pattern)), "")
        yield LogFile(called, place, file_changed, told or family(called), damage)


def _copy_of(source: IO[bytes], folder: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
        shutil.copyfileobj(source, copy)
        return Path(copy.name)


class _Archives:
    """Copies the files of an archive, and of archives in it, to a folder: MOST_UNPACKED bytes at most in all."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._left, self._copies = folder, MOST_UNPACKED, 0

    def files(
        self, name: str, path: Path, changed: datetime, depth: int = 0
    ) -> Iterator[tuple[str, Path, datetime, str]]:
        """Yield the file itself, or the files in it. A file that cannot be opened is yielded with the reason."""
        try:
            with packings.said_of(name):
                start = packings.start_of(path, SNIFFED)
                is_archive = start.startswith(packings.ZIP) or start[257:262] == packings.TAR
                packings.refuse(name, start)
                if not is_archive or depth == packings.MOST_LAYERS:
                    damage = f"{name} is an archive in archives: unpack it, and give what is in it."
                    yield name, path, changed, damage if is_archive else ""
                    return
                for member, copy, member_changed in self._members(path, is_zip=start.startswith(packings.ZIP)):
                    yield from self.files(f"{name}:{member}", copy, min(member_changed, changed), depth + 1)
        except Damaged as error:
            yield name, path, changed, str(error)

    def _members(self, path: Path, *, is_zip: bool) -> Iterator[tuple[str, Path, datetime]]:
        with packings.unpacked(path) as file:
            if is_zip:
                with zipfile.ZipFile(file) as archive:
                    for zipped in archive.infolist():
                        if not zipped.is_dir():
                            with archive.open(zipped) as source:
                                yield zipped.filename, self._copied(source), _zip_time(zipped)
                return
            with tarfile.open(fileobj=file, mode="r|") as tape:
                for taped in tape:
                    source_or_none = tape.extractfile(taped) if taped.isfile() else None
                    if source_or_none is not None:
                        yield taped.name, self._copied(cast("BinaryIO", source_or_none)), _time(taped.mtime)

    def _copied(self, source: object) -> Path:
        self._copies += 1
        if self._copies > MOST_FILES:
            raise Damaged(f"The archive has more than {MOST_FILES:,} files: unpack it, and give its files.")
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as copy:
            while piece := cast("BinaryIO", source).read(2**20):
                self._left -= len(piece)
                if self._left < 0:
                    raise Damaged(f"The archive has more than {MOST_UNPACKED:,} bytes: unpack it, and give its files.")
                copy.write(piece)
            return Path(copy.name)


def _time(seconds: float) -> datetime:
    """Return when a file was changed; if that is not a valid date, a date that is later than all lines of the file."""
    try:
        return min(datetime.fromtimestamp(seconds, UTC), LATER_THAN_ALL)
    except (ValueError, OverflowError, OSError):
        return LATER_THAN_ALL


def _zip_time(member: zipfile.ZipInfo) -> datetime:
    """Return when the file was changed, or up to a day later, because the time in a zip archive names no zone."""
    try:
        return datetime(*member.date_time, tzinfo=UTC) + timedelta(hours=14)
    except ValueError:
        return LATER_THAN_ALL


def family(name: str) -> str:
    """Return the name that all rotated files of a log have in common, such as `mainlog` for `mainlog.2.gz`."""
    folder, slash, base = name.rpartition("/")
    return folder + slash + (_ROTATED.sub("", base) or base)


def rotation(name: str) -> int | None:
    """Return the rotation number in a file's name: 0 if the log is still written to it; None if the name has a date."""
    base = name.rpartition("/")[2]
    found = _ROTATED.search(base)
    if not found:
        return 0
    numbers = _NUMBER.findall(found[0])
    return int(numbers[0]) if len(numbers) == 1 and not _DATED.search(found[0]) else None
