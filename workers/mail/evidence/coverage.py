"""Finds what a host's log covers: from when to when it has lines, and where lines may be missing without a trace."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise

from weir.workers.mail.evidence import losses
from weir.workers.mail.evidence.formats.lines import LogLine
from weir.workers.mail.evidence.losses import Reach
from weir.workers.mail.evidence.signs import LoggedSign, Sign

AN_HOUR = timedelta(hours=1)
A_MINUTE = timedelta(minutes=1)
EVER = datetime.min.replace(tzinfo=UTC)
KINDS = 4  # kinds of gaps: `crash` or not, `strange` or not
LONGEST_QUOTED = 200  # characters of a line in a sentence


@dataclass(frozen=True, slots=True)
class LogGap:
    """A period from which lines may be missing, and the reason."""

    since: datetime
    until: datetime
    why: str
    crash: bool = False  # a crash is the reason: the program that keeps the log may have kept every line all the same
    strange: bool = False  # a line was not understood: the operator may know that no mail server wrote it

    def touches(self, since: datetime, until: datetime) -> bool:
        return self.since <= until and since <= self.until


class Minutes:
    """The minutes in which something was logged. One number is kept for each minute, however many lines it has."""

    def __init__(self) -> None:
        self._found: set[int] = set()

    def note(self, moment: datetime) -> None:
        self._found.add(_minute(moment))

    def has_any(self, since: datetime, until: datetime) -> bool:
        """Return whether something was logged from `since` to `until`, to the minute."""
        first, last = _minute(since), _minute(until)
        if last - first < len(self._found):
            return any(minute in self._found for minute in range(first, last + 1))
        return any(first <= minute <= last for minute in self._found)


@dataclass(slots=True)
class LoggedSpan:
    """The period from which one file has lines of a host."""

    file: str
    first: datetime
    last: datetime


@dataclass(slots=True)
class Coverage:
    """What the log of one host covers. Call `note` for each of its lines, file by file in any order."""

    first: datetime
    last: datetime
    certain: bool = False  # Postfix or Exim wrote at least one of the lines, beyond doubt
    lines: int = 0
    gaps: list[LogGap] = field(default_factory=list)
    spans: list[LoggedSpan] = field(default_factory=list)
    named: Minutes = field(default_factory=Minutes)  # when Message-IDs were logged
    discarded: Minutes = field(default_factory=Minutes)  # when e-mails were accepted and thrown away
    _silence: timedelta = timedelta(0)  # the longest silence between two lines of one file
    _previous: datetime | None = None  # the time of the previous line, in the order of reading
    _down: str = ""  # what was down between the previous line and the next line
    # The time of the line before each start and stop. The key is the instance, the time, whether it is a start, and the
    # process id: so a line that stands in two files counts once.
    _runs: dict[tuple[str, datetime, bool, str], datetime | None] = field(default_factory=dict)

    def note(self, line: LogLine, said: LoggedSign, file: str) -> None:
        """Record that the host's log has this line, and what the line says."""
        sign = said.sign
        self.lines += 1
        self._stretch(line.moment, file)
        span = self.spans[-1]
        if span.last - line.moment > A_MINUTE:
            why = f"the lines of {span.file} are not in the order of time: give it with its oldest line first"
            add(self.gaps, LogGap(line.moment, span.last, why))
        if line.ambiguous:
            add(self.gaps, LogGap(line.moment - AN_HOUR, line.moment + AN_HOUR, "the clock was set back then"))
        if self._down:
            add(self.gaps, LogGap(self._previous or line.moment, line.moment, self._down, crash=True))
            self._down = ""
        if said.names and said.message_id:
            self.named.note(line.moment)
        elif sign is Sign.DISCARDED:
            self.discarded.note(line.moment)
        elif sign is Sign.STARTED or sign is Sign.STOPPED:
            instance = line.instance.partition("/")[0]
            self._runs.setdefault((instance, line.moment, sign is Sign.STARTED, line.pid), self._previous)
        elif sign is Sign.CUT:
            self.note_cut(line, strange=True)
        self._previous = line.moment

    def note_cut(self, line: LogLine, *, strange: bool) -> None:
        """Record that the end of this line is missing, or seems to be missing; it may have named an e-mail."""
        why = f"a line of it is not complete ({line.program}: {line.text[:LONGEST_QUOTED]})"
        add(self.gaps, LogGap(min(self._previous or line.moment, line.moment), line.moment, why, strange=strange))

    def note_boot(self) -> None:
        """Record that the machine was started between the previous line and the next line."""
        self._down = "the machine was started then"

    @property
    def previous(self) -> datetime | None:
        """The time of the previous line, in the order of reading."""
        return self._previous

    def close(self) -> None:
        """Record that all lines are read: add the gaps between files, and the gaps before starts without a stop."""
        self.gaps += [*self._between_files(), *self._before_starts()]

    def _before_starts(self) -> Iterator[LogGap]:
        running: dict[str, bool] = {}
        for (instance, moment, started, _), before in sorted(self._runs.items(), key=lambda run: run[0][:3]):
            was_running = running.get(instance, True)
            running[instance] = started
            if started and was_running and before is not None:
                why = "the mail server was started then without having been stopped"
                yield LogGap(min(before, moment), moment, why, crash=True)

    def _between_files(self) -> Iterator[LogGap]:
        """Yield the silences between two files that are longer than any within a file: a file may be missing there."""
        spans = sorted(self.spans, key=lambda span: span.first)
        for last, span in zip(accumulate(spans, _later), spans[1:], strict=False):
            if span.first - last.last > self._silence:
                why = (
                    f"{last.file} ends, and {span.file} begins, and no file is so long without a line: is one missing?"
                )
                yield LogGap(last.last, span.first, why)

    def overlap(self) -> LogGap | None:
        """Return the whole period of the files if two of them overlap, which the files of one host do not."""
        spans = sorted(self.spans, key=lambda span: span.first)
        for before, after in pairwise(spans):
            if before.last - after.first > A_MINUTE:
                why = (
                    f"{before.file} and {after.file} name no host, and have lines of the same time: if they are of two "
                    "hosts, say which by --host-of; if of one, say so by the same"
                )
                return LogGap(spans[0].first, max(span.last for span in spans), why)
        return None

    def _stretch(self, moment: datetime, file: str) -> None:
        self.first, self.last = min(self.first, moment), max(self.last, moment)
        if self.spans and self.spans[-1].file == file:
            span = self.spans[-1]
            if self._previous is not None:
                self._silence = max(self._silence, moment - self._previous)
            span.first, span.last = min(span.first, moment), max(span.last, moment)
        else:
            self.spans.append(LoggedSpan(file, moment, moment))


def add(gaps: list[LogGap], gap: LogGap) -> None:
    """Add a gap. If one of the last gaps is close and of the same kind, extend it instead.

    So the number of gaps grows with the minutes of the log, not with its lines.
    """
    for at in range(max(len(gaps) - KINDS, 0), len(gaps)):
        last = gaps[at]
        if (last.crash, last.strange) != (gap.crash, gap.strange):
            continue
        if EVER < last.since <= gap.until + A_MINUTE and gap.since <= last.until + A_MINUTE:
            gaps[at] = replace(last, since=min(last.since, gap.since), until=max(last.until, gap.until))
            return
    gaps.append(gap)


def of_loss(reach: Reach, before: datetime, moment: datetime, text: str) -> LogGap:
    """Return the period in which lines were lost, as a program that is not a mail server says at `moment`.

    `before` is the time of the previous line of the host, or else of the file.
    """
    said = text[:LONGEST_QUOTED]
    if reach is Reach.DOWN:
        return LogGap(min(before, moment), moment, f"who keeps the log was started then ({said})")
    if reach is Reach.BOOT:
        return LogGap(min(before, moment), moment, f"the machine was started then ({said})", crash=True)
    since = min(before, moment - losses.AROUND)
    return LogGap(since, moment + losses.AROUND, f"lines were lost then ({said})")


def _later(one: LoggedSpan, other: LoggedSpan) -> LoggedSpan:
    return max(one, other, key=lambda span: span.last)


def _minute(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


@dataclass(slots=True)
class Place:
    """How far a file has been read: the times between which a line without a time lies."""

    gaps: list[LogGap] = field(default_factory=list)
    moment: datetime = EVER  # the time of the last line that has one, or of the end of the previous file
    before: datetime = EVER  # the value of `moment` before the last line that has a time
    first: datetime | None = None
    _why: str = ""

    def move(self, moment: datetime) -> None:
        """Move on to a line that has a time."""
        self.first = self.first or moment
        if self._why:
            self._add(moment, self._why, strange=True)
            self._why = ""
        self.before, self.moment = self.moment, moment

    def stop_at(self, why: str) -> None:
        """Record that a line at this place is not understood, and may be a mail server's."""
        self._why = self._why or why

    def end(self, changed: datetime, damage: str = "") -> None:
        """Record that the file ends here, or that the rest of it cannot be read (`damage` says why)."""
        if self._why:
            self._add(changed, self._why, strange=True)
        if damage:
            self._add(changed, damage, strange=False)
        self._why = ""

    def _add(self, until: datetime, why: str, *, strange: bool) -> None:
        add(self.gaps, LogGap(min(self.moment, until), max(self.moment, until), why, strange=strange))
