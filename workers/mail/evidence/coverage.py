"""What a host's log covers: from when to when, and where lines may be missing that nobody can see."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from workers.mail.evidence.lines import Line
from workers.mail.evidence.signs import Sign

AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which lines may be missing, and why."""

    since: datetime
    until: datetime
    why: str
    crash: bool = False  # whoever kept the log may have kept it all the same

    def touches(self, since: datetime, until: datetime) -> bool:
        return self.since <= until and since <= self.until


@dataclass(slots=True)
class Coverage:
    """Of one host. Fill it with `note`, in any order of files."""

    first: datetime
    last: datetime
    lines: int = 0
    gaps: list[Gap] = field(default_factory=list)
    _named_minutes: set[int] = field(default_factory=set)
    _previous: datetime | None = None  # the line before, in the order of reading
    _rebooted: bool = False
    # By instance, time and process id, as a line may be in two files: whether it started, and the line before.
    _runs: dict[tuple[str, datetime, bool, str], datetime | None] = field(default_factory=dict)

    def note(self, line: Line, sign: Sign) -> None:
        """Take in that the host's log has this line."""
        self.lines += 1
        self.first, self.last = min(self.first, line.moment), max(self.last, line.moment)
        if line.ambiguous:
            self.gaps.append(Gap(line.moment - AN_HOUR, line.moment + AN_HOUR, "the clock was set back then"))
        if self._rebooted:
            self._rebooted = False
            self.gaps.append(
                Gap(self._previous or line.moment, line.moment, "the machine was started then", crash=True)
            )
        if sign in {Sign.NAMED, Sign.RECEIVED}:
            self._named_minutes.add(_minute(line.moment))
        elif sign in {Sign.STARTED, Sign.STOPPED}:
            instance = line.instance.partition("/")[0]
            self._runs.setdefault((instance, line.moment, sign is Sign.STARTED, line.pid), self._previous)
        elif sign is Sign.LOST:
            self.gaps.append(Gap(self._previous or line.moment, line.moment, f"lines were lost then ({line.text})"))
        self._previous = line.moment

    def note_boot(self) -> None:
        """Take in that the machine was started between the line before and the next one."""
        self._rebooted = True

    def names_something(self, since: datetime, until: datetime) -> bool:
        """Tell whether the log has a Message-ID in this time, to the minute: whether it logs them."""
        first, last = _minute(since), _minute(until)
        if last - first < len(self._named_minutes):
            return any(minute in self._named_minutes for minute in range(first, last + 1))
        return any(first <= minute <= last for minute in self._named_minutes)

    def all_gaps(self) -> Iterator[Gap]:
        """Yield the gaps that lines told of, and those before a start that followed no stop."""
        yield from self.gaps
        running: dict[str, bool] = {}
        for (instance, moment, started, _), before in sorted(self._runs.items(), key=lambda run: run[0][:3]):
            was_running = running.get(instance, True)
            running[instance] = started
            if started and was_running and before is not None:
                why = "the mail server was started then without having been stopped"
                yield Gap(min(before, moment), moment, why, crash=True)


def _minute(moment: datetime) -> int:
    return int(moment.timestamp()) // 60
