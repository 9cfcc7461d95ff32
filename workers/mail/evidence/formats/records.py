"""Reads the lines of one file, one after the other, removes what is wrapped around them, and takes them apart."""

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo

from weir.workers.mail.evidence.formats import lines, years
from weir.workers.mail.evidence.formats.files import LogFile
from weir.workers.mail.evidence.formats.lines import Around, FileClock, LogLine
from weir.workers.mail.evidence.formats.packings import Damaged
from weir.workers.mail.evidence.formats.wrappings import COLOUR, PART, Unwrapper, Wrapped
from weir.workers.mail.evidence.formats.years import Survey, Years

LONGEST_SHOWN = 200  # characters of a line that a sentence quotes
NULS = "a part of the file is nothing but NULs, in place of lines"
OWN_WORDS = ("-- ", " Suggested action: ")  # what journalctl adds to a log, and what Exim adds to a warning
_GOES_ON = ("  ", "\t")  # how the further lines of an entry begin


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A line as a text and, if it can be taken apart, in parts."""

    text: str  # the line as people read it
    searched: str  # the text in which Message-IDs are looked for: the line as it is, and without its wrapping
    line: LogLine | None  # None if the line cannot be taken apart
    strange: str = ""  # why a line of a mail server may be missing here


class Records:
    """The records of one file. Each iteration reads the file anew."""

    def __init__(self, file: LogFile, zone: tzinfo, first_year: int | None = None) -> None:
        self._file, self._zone, self._first_year = file, zone, first_year
        self._around = Around(file.host)

    def __iter__(self) -> Iterator[LogRecord]:
        """Yield the records. Raises Damaged."""
        return self._read_by(FileClock(self._zone, self._file.changed, self._first_year))

    def survey(self) -> Survey:
        """Read all records, and return the stamps that name no year."""
        clock = FileClock(self._zone, self._file.changed)
        with suppress(Damaged):  # the part before the damage is surveyed
            deque(self._read_by(clock), maxlen=0)
        return clock.survey

    def _read_by(self, clock: FileClock) -> Iterator[LogRecord]:
        unwrapper = Unwrapper()
        of_others = False  # whether a program that is not a mail server wrote the previous line
        for raw in self._file.lines():
            text = raw.replace("\0", "") if "\0" in raw else raw
            nuls = NULS if text is not raw else ""
            text = COLOUR.sub("", text) if "\x1b" in text else text
            record = self._read(text.removeprefix("\ufeff"), clock, unwrapper)
            line, strange = record.line, record.strange
            if strange and of_others and record.text.startswith(_GOES_ON):
                strange = ""
            elif line or strange:
                of_others = line is not None and not (line.instance or line.is_exim)
            yield LogRecord(record.text, record.searched, line, strange or nuls)
        if unwrapper.has_parts:
            yield LogRecord("", "", None, "the last line of the file is not complete")

    def _read(self, text: str, clock: FileClock, unwrapper: Unwrapper) -> LogRecord:
        line, shown, searched = lines.take_apart(text, clock, self._around), text, text
        if line is None and (wrapped := unwrapper.unwrap(text)):
            if wrapped is PART:
                return LogRecord(text, text, None)
            line, shown = self._unwrapped(wrapped, text, clock)
            searched = f"{text}\n{wrapped.text}"
        elif line is None:
            line = lines.of_no_program(text, clock, self._around)
        if line is not None and line.has_second:
            return LogRecord(shown, searched, line, f"two lines ran together ({shown[:LONGEST_SHOWN]})")
        strange = ""
        if line is None and text and not text.startswith(OWN_WORDS):
            strange = f"a line was not understood ({shown[:LONGEST_SHOWN]})"
        return LogRecord(shown, searched, line, strange)

    def _unwrapped(self, wrapped: Wrapped, text: str, clock: FileClock) -> tuple[LogLine | None, str]:
        around = Around(self._file.host, wrapped.host, wrapped.moment)
        if wrapped.header is None:
            line = lines.take_apart(wrapped.text, clock, around)
            return line or lines.of_no_program(wrapped.text, clock, around), text
        _, program, pid = wrapped.header
        line = lines.of_parts(wrapped.header, wrapped.text, around)
        if line is None:
            return None, text
        return line, f"{line.moment.isoformat()} {line.host} {program}[{pid}]: {wrapped.text}"


def years_of(files: Collection[LogFile], zone: tzinfo, told: int | None) -> dict[LogFile, Years]:
    """Read all files to find their years; `told` is the year of each file's last line, if the operator says it."""
    found = {file: Records(file, zone).survey().years(file.changed, zone, told) for file in files}
    years.go_on(found)
    return found
