"""What a host's log covers: from when to when, and where lines may be missing without a trace."""

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
KINDS = 4  # of gaps: by a crash or not, strange or not
LONGEST_QUOTED = 200  # characters of a line in a sentence


@dataclass(frozen=True, slots=True)
class LogGap:
    """A time of which lines may be missing, and why."""

    since: datetime
    until: datetime
    why: str
    crash: bool = False  # the program that keeps the log may have kept it all the same
    strange: bool = False  # the operator may know that the lines not understood are not a mail server's

    def touches(self, since: datetime, until: datetime) -> bool:
        return self.since <= until and since <= self.until


class Minutes:
    """The minutes in which something was logged: one number for each, however many lines there are."""

    def __init__(self) -> None:
        self._found: set[int] = set()

    def note(self, moment: datetime) -> None:
        self._found.add(_minute(moment))

    def has_any(self, since: datetime, until: datetime) -> bool:
        """Return whether there is one from one time to another, to the minute."""
        first, last = _minute(since), _minute(until)
        if last - first < len(self._found):
            return any(minute in self._found for minute in range(first, last + 1))
        return any(first <= minute <= last for minute in self._found)


@dataclass(slots=True)
class LoggedSpan:
    """From when to when one file has lines of a host."""

    file: str
    first: datetime
    last: datetime


@dataclass(slots=True)
class Coverage:
    """What the log of one host covers. Fill it with `note`, in any order of files."""

    first: datetime
    last: datetime
    certain: bool = False  # a line is of Postfix or Exim beyond doubt
    lines: int = 0
    gaps: list[LogGap] = field(default_factory=list)
    spans: list[LoggedSpan] = field(default_factory=list)
    named: Minutes = field(default_factory=Minutes)  # when it has Message-IDs: whether it logs them
    discarded: Minutes = field(default_factory=Minutes)  # when e-mails were accepted and thrown away
    _silence: timedelta = timedelta(0)  # the longest between two lines of a file
    _previous: datetime | None = None  # the line before, in the order of reading
    _down: str = ""  # what was down between the line before and the next one
    # By instance, time, start or stop, and process id, because a line may be in two files: the time of the line before.
    _runs: dict[tuple[str, datetime, bool, str], datetime | None] = field(default_factory=dict)

    def note(self, line: LogLine, said: LoggedSign, file: str) -> None:
        """Record that the host's log has this line, and what it says."""
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
        """Record that the end of this line, which may have named an e-mail, is missing, or seems to be."""
        why = f"a line of it is not complete ({line.program}: {line.text[:LONGEST_QUOTED]})"
        add(self.gaps, LogGap(min(self._previous or line.moment, line.moment), line.moment, why, strange=strange))

    def note_boot(self) -> None:
        """Record that the machine was started between the line before and the next one."""
        self._down = "the machine was started then"

    @property
    def previous(self) -> datetime | None:
        """The time of the line before, in the order of reading."""
        return self._previous

    def close(self) -> None:
        """Record that all is read: add the gaps between files, and before starts that followed no stop."""
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
        """Yield silences between two files that are longer than any within a file: a file may be missing there."""
        spans = sorted(self.spans, key=lambda span: span.first)
        for last, span in zip(accumulate(spans, _later), spans[1:], strict=False):
            if span.first - last.last > self._silence:
                why = (
                    f"{last.file} ends, and {span.file} begins, and no file is so long without a line: is one missing?"
                )
                yield LogGap(last.last, span.first, why)

    def overlap(self) -> LogGap | None:
        """Return from when to when two files have lines, if they do not follow each other as those of one host do."""
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
    """Add a gap, to one of the last if that is of its kind and close: there are as many as minutes, not as lines."""
    for at in range(max(len(gaps) - KINDS, 0), len(gaps)):
        last = gaps[at]
        if (last.crash, last.strange) != (gap.crash, gap.strange):
            continue
        if EVER < last.since <= gap.until + A_MINUTE and gap.since <= last.until + A_MINUTE:
            gaps[at] = replace(last, since=min(last.since, gap.since), until=max(last.until, gap.until))
            return
    gaps.append(gap)


def of_loss(reach: Reach, before: datetime, moment: datetime, text: str) -> LogGap:
    """Return the time in which lines were lost, as another program says at `moment`.

    `before` is the time of the line before, of the host or of the file.
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
    """Where the reading of a file stands: between which times a line without a time lies."""

    gaps: list[LogGap] = field(default_factory=list)
    moment: datetime = EVER  # of the last line that has a time, or of the end of the file before
    before: datetime = EVER  # of the one before that
    first: datetime | None = None
    _why: str = ""

    def move(self, moment: datetime) -> None:
        """Go on to a line that has a time."""
        self.first = self.first or moment
        if self._why:
            self._add(moment, self._why, strange=True)
            self._why = ""
        self.before, self.moment = self.moment, moment

    def stop_at(self, why: str) -> None:
        """Record that a line is here that may be a mail server's, and is not understood."""
        self._why = self._why or why

    def end(self, changed: datetime, damage: str = "") -> None:
        """Record that the file ends here, or cannot be read from here on."""
        if self._why:
            self._add(changed, self._why, strange=True)
        if damage:
            self._add(changed, damage, strange=False)
        self._why = ""

    def _add(self, until: datetime, why: str, *, strange: bool) -> None:
        add(self.gaps, LogGap(min(self.moment, until), max(self.moment, until), why, strange=strange))
