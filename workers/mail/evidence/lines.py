"""A line of a mail server's log, taken apart: when, where, which program, and what it says.

Three beginnings are read: that of syslog, `Nov 23 17:20:14 host program[pid]: text` (RFC 3164, 4.1.1), the same with a
time of RFC 3339, as rsyslog and `journalctl -o short-iso` write it, and that of Exim's mainlog, `2026-11-23 17:20:14
text`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A time without a year that is later than the file's last change by more is of a year before: clocks differ by less.
A_DAY = timedelta(days=1)
YEARS_TRIED = 9  # of which one at least has a 29 February
_PRIORITY = r"(?:<[\w.]+> ?)?"  # `<22>`, or FreeBSD's `<mail.info>`
_SYSLOG = re.compile(
    _PRIORITY
    + r"(?P<stamp>[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) "
    + _PRIORITY
    + r"(?P<host>\S+) (?P<program>[^\s\[:]+)(?:\[(?P<pid>\d+)\])?: (?:\[ID \d+ [\w.]+\] )?(?P<text>.*)",
    re.DOTALL,
)
_EXIM = re.compile(
    r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [+-]\d{4})?) (?:\[\d+\] )?(?P<text>.*)", re.DOTALL
)
_EXIM_PROGRAMS = ("exim", "exim4")


@dataclass(frozen=True, slots=True)
class Line:
    """One line. An Exim mainlog names no host."""

    moment: datetime  # UTC
    ambiguous: bool  # its time is one of two, as the clock was set back
    host: str
    instance: str  # such as `postfix` or `postfix-out/submission`; empty for a program that has only one name
    program: str
    pid: str
    text: str


class Clock:
    """Reads the times of one file. Those without a zone are in `zone`, those without a year before `changed`."""

    def __init__(self, zone: tzinfo, changed: datetime) -> None:
        self._zone = zone
        self._latest = changed + A_DAY
        self._last = ("", datetime.min.replace(tzinfo=UTC), False)

    def read(self, stamp: str) -> tuple[datetime, bool]:
        """Return the time in UTC, and whether it is ambiguous. Raises ValueError."""
        if self._last[0] != stamp:
            local = datetime.fromisoformat(stamp) if stamp[0].isdigit() else self._in_its_year(stamp)
            ambiguous = False
            if local.tzinfo is None:
                local = local.replace(tzinfo=self._zone)
                ambiguous = local.utcoffset() != local.replace(fold=1).utcoffset()
            self._last = (stamp, local.astimezone(UTC), ambiguous)
        return self._last[1:]

    def _in_its_year(self, stamp: str) -> datetime:
        """Return the last such time that is not in the future of the file."""
        month, day, hour = MONTHS.index(stamp[:3]) + 1, int(stamp[4:6]), stamp[-8:]
        for year in range(self._latest.astimezone(self._zone).year, 0, -1)[:YEARS_TRIED]:
            try:
                local = datetime.fromisoformat(f"{year}-{month:02}-{day:02}T{hour}")
            except ValueError:  # 29 February
                continue
            if local.replace(tzinfo=self._zone) <= self._latest:
                return local
        raise ValueError(stamp)


def take_apart(text: str, clock: Clock) -> Line | None:
    """Return the parts of a line; None if it begins in none of the ways that are read."""
    found = _SYSLOG.match(text) or _EXIM.match(text)
    if not found:
        return None
    parts = found.groupdict()
    stamp = parts["stamp"]
    try:
        moment, ambiguous = clock.read(stamp.replace(" +", "+").replace(" -", "-") if stamp[0].isdigit() else stamp)
    except (ValueError, OverflowError):  # the second for a year that UTC has not
        return None
    instance, _, program = parts.get("program", "exim").rpartition("/")
    said = parts["text"]
    if program in _EXIM_PROGRAMS and (own := _EXIM.match(said)):
        said = own["text"]
    return Line(moment, ambiguous, parts.get("host", ""), instance, program, parts.get("pid") or "", said)
