"""Finds the year of lines that name no year, from the file's last change and the order of its lines.

A file was last changed when its last line was written, unless it was copied since; then the lines may be from any
earlier year. So the year is certain in three cases only: if the last line and the last change are at most a day apart;
if another file of the same log, whose year is certain, begins within a day after the last line; or if the operator says
the year.
"""

from bisect import bisect_left, insort
from calendar import isleap
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo

from weir.workers.mail.evidence.formats.files import LogFile

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The clocks of the log and of the file differ by less than this. So a time without a year that would be later than the
# file's last change by more than this belongs to an earlier year.
A_DAY = timedelta(days=1)
YEARS_TRIED = 9  # at least one of nine years has a 29 February
HALF_A_YEAR = 183  # days
A_MONTH = 31
A_LEAP_YEAR = 2000  # a year that has every day


@dataclass(slots=True)
class YearTurns:
    """Counts how often the year has turned, in the order of a file's lines."""

    years: int = 0
    unclear: bool = False  # the times jump in a way that makes the number a guess
    _day: int | None = None

    def note(self, month: int, day: int) -> int:
        """Return how often the year has turned since the first line."""
        now = month * A_MONTH + day
        step = now - self._day if self._day is not None else 0
        if step < -A_MONTH:
            self.years += 1
            self.unclear |= step > -HALF_A_YEAR
        elif step > HALF_A_YEAR:  # a late line, from before the turn of the year
            self.unclear |= not self.years
            self.years = max(self.years - 1, 0)
        self._day = now
        return self.years


@dataclass(frozen=True, slots=True)
class Years:
    """What is known of one file's years."""

    first: int | None = None  # the year of the first line that names none; None if it was not found, or is not needed
    since: datetime | None = None  # the time of the first line that names no year
    until: datetime | None = None  # the time of the last line that names no year
    certain: bool = True


def split_stamp(stamp: str) -> tuple[int, int, str]:
    """Return month, day and time of day of a stamp such as `Nov  3 17:20:14`. Raises ValueError."""
    month, day, time = stamp.split()
    return MONTHS.index(month) + 1, int(day), time


def local(year: int, stamp: str) -> datetime:
    """Return the time, without a zone. Raises ValueError if that year has no such day."""
    month, day, time = split_stamp(stamp)
    return datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{time}")


def last_before(stamp: str, latest: datetime, zone: tzinfo) -> datetime:
    """Return the last time with this stamp that is not after `latest`, without a zone. Raises ValueError."""
    for year in range(latest.astimezone(zone).year, 0, -1)[:YEARS_TRIED]:
        try:
            found = local(year, stamp)
        except ValueError:  # 29 February
            continue
        if found.replace(tzinfo=zone) <= latest:
            return found
    raise ValueError(stamp)


@dataclass(slots=True)
class Survey:
    """What is kept of the stamps of one file that name no year, in the order of its lines."""

    first: str = ""
    last: str = ""
    turns: YearTurns = field(default_factory=YearTurns)
    leaps: set[int] = field(default_factory=set)  # after how many turns of the year there was a 29 February

    def note(self, stamp: str) -> int:
        """Return how often the year has turned since the first stamp. Raises ValueError if no year has such a day."""
        local(A_LEAP_YEAR, stamp)
        month, day, _ = split_stamp(stamp)
        turned = self.turns.note(month, day)
        if (month, day) == (2, 29):
            self.leaps.add(turned)
        self.first, self.last = self.first or stamp, stamp
        return turned

    def years(self, changed: datetime, zone: tzinfo, told: int | None) -> Years:
        """Return what is known of the file, which was last changed at `changed`.

        `told` is the year of its last line, if the operator says it.
        """
        if not self.first:
            return Years()
        try:
            last = local(told, self.last) if told else self._last(changed, zone)
            first = local(last.year - self.turns.years, self.first)
        except ValueError:
            return Years(certain=False)
        until = last.replace(tzinfo=zone).astimezone(UTC)
        certain = not self.turns.unclear and (told is not None or abs(changed - until) <= A_DAY)
        return Years(first.year, first.replace(tzinfo=zone).astimezone(UTC), until, certain)

    def _last(self, changed: datetime, zone: tzinfo) -> datetime:
        latest = changed + A_DAY
        for _ in range(YEARS_TRIED):
            last = last_before(self.last, latest, zone)
            if all(isleap(last.year - self.turns.years + turned) for turned in self.leaps):
                return last
            latest = last.replace(tzinfo=zone) - A_DAY
        raise ValueError(self.last)


def go_on(found: dict[LogFile, Years]) -> None:
    """Mark a file's years as certain if a certain file of the same log begins within a day after the file ends.

    Files are judged from the last backwards, so that one certain file may make several certain.
    """
    begin: dict[str, list[datetime]] = defaultdict(list)  # by log: when its certain files begin
    stamped = [(known.until, known.since, file) for file, known in found.items() if known.until and known.since]
    for until, since, file in sorted(stamped, key=lambda each: each[:2], reverse=True):
        certain = begin[file.host]
        following = bisect_left(certain, until)
        if following < len(certain) and certain[following] - until <= A_DAY:
            found[file] = replace(found[file], certain=True)
        if found[file].certain:
            insort(certain, since)
