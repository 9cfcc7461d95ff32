"""Takes a line of a mail server's log apart: its time, host and program, and the text.

These forms are read. The first is that of syslog, `Nov 23 17:20:14 host program[pid]: text` (RFC 3164, 4.1.1), also
without the host and with a year. The same form may have a time of RFC 3339, as rsyslog and `journalctl -o short-iso`
write it, or the time of `-o short-full` or `-o short-unix`. Then there are RFC 5424, and the form of Exim's mainlog,
`2026-11-23 17:20:14 text`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from weir.workers.mail.evidence.formats import years
from weir.workers.mail.evidence.formats.years import A_DAY, MONTHS, Survey

_MONTH = rf"(?:{'|'.join(MONTHS)})"
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_DAYS = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_PRIORITY = r"(?:<[\w.]+> ?)?"  # `<22>`, or FreeBSD's `<mail.info>`
_LEVEL = r"(?:[a-z]+[0-7]?\.(?:emerg|alert|crit|err|error|warning|warn|notice|info|debug) )?"
_SYSLOG_STAMP = (
    rf"{_MONTH} [ \d]?\d (?:\d{{4}} )?{_TIME}|\d{{4}} {_MONTH} [ \d]?\d {_TIME}"
    rf"|{_DAYS} {_MONTH} [ \d]?\d {_TIME} \d{{4}}"
    rf"|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|{_DAYS} \d{{4}}-\d\d-\d\d {_TIME} [A-Z+-]\S*|\d{{9,11}}\.\d+"
)
_PROGRAM = r"(?P<program>(?!\d+[\[:])[^\s\[:]+)(?:\[(?P<pid>\d*)\])?:(?: (?:\[ID \d+ [\w.]+\] )?(?P<text>.*)|$)"
_SYSLOG = re.compile(
    rf"{_PRIORITY}(?P<stamp>{_SYSLOG_STAMP}) {_PRIORITY}(?:(?P<host>[^\s\[\]|/]+)(?<!:) )?{_LEVEL}{_PROGRAM}", re.DOTALL
)
_BARE = re.compile(rf"{_PRIORITY}(?:(?P<host>[^\s\[\]|/]+)(?<!:) )?{_LEVEL}{_PROGRAM}", re.DOTALL)
_ELEMENT = r'\[[^\s="\]]+(?: [^\s="\]]+="(?:[^"\\]|\\.)*")*\]'
_RFC_5424 = re.compile(
    r"(?:\d+ )?(?:<\d{1,3}>)?1 (?P<stamp>\d{4}-\d\d-\d\dT\S+) (?P<host>\S+) (?P<program>\S+) (?P<pid>\S+) \S+ "
    rf"(?:-|(?:{_ELEMENT})+)(?: \ufeff?(?P<text>.*)|$)",
    re.DOTALL,
)
_ISO = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: ?[+-]\d\d:?\d\d)?"
_EXIM = re.compile(rf"(?P<stamp>{_ISO}) (?:\[\d+\] )?(?P<text>.*)", re.DOTALL)
_HEADED = re.compile(
    rf"{_PRIORITY}(?P<stamp>{_SYSLOG_STAMP}) (?P<text>(?P<host>[^\s\[\]|/:]+) [^\s:\[]+ .*)", re.DOTALL
)
_WITH_PROCESS = re.compile(r"(?P<host>[^\s\[\]|/=]+) (?P<program>[^\s\[:=]+)\[(?P<pid>\d+)\]: (?P<text>.*)", re.DOTALL)
_UNIX = re.compile(r"\d{9,11}\.\d+")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR = re.compile(r"\d{4}")
_FRACTION = re.compile(r"[.,]\d+$")
_HOURS = re.compile(r"[+-]\d\d")  # a zone without minutes
_ELLIPSIS = re.compile(r"…|\.\.\.")
YEARS = range(1970, 9_999)  # no e-mail was logged in other years, which are too near to the limits of a datetime
_EXIM_PROGRAMS = ("exim", "exim4")
_NAMELESS = frozenset({"-", "localhost", "localhost.localdomain", "(none)"})  # names that many hosts have
# Two lines that ran together: the end of the first line is missing, and in its text stands the time of the second line,
# with something after it. If the first line is not a mail server's, this matters only if the second is. Each part of
# the patterns has a bound: strangers can shape the text of a line, and an unbounded part would take quadratic time.
_SECOND = re.compile(
    rf"(?:{_MONTH} [ \d]?\d (?:\d{{4}} )?|\d{{4}}-\d\d-\d\d[T ])\d\d:\d\d:\d\d\S{{0,16}} \S"
    r"|\d{9,11}\.\d{1,9} \S"
)
_SECOND_OF_MAIL = re.compile(
    r"\d\d:\d\d:\d\d\S{0,16} (?:\S{1,255} )?"
    r"(?:(?:[\w.-]{1,64}/[\w/.-]{1,64}|exim4?)\[\d{1,9}\]: |\w{6}-\w{6,11}-\w{2,4} )"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log. If the line names no host, `host` is the host of all such lines of its file."""

    moment: datetime  # UTC
    ambiguous: bool  # the local time occurred twice, because the clock was set back
    host: str
    instance: str  # such as `postfix` or `postfix-out/submission`; empty if the program's name has no slash
    program: str  # empty if the line names no program
    pid: str
    text: str
    of_mainlog: bool = False  # the line has the form of Exim's own log; another program may have written it

    @property
    def is_exim(self) -> bool:
        """Whether the line names Exim as its program, or has the form of Exim's own log."""
        return self.program in _EXIM_PROGRAMS

    @property
    def has_second(self) -> bool:
        """Whether another line begins in the middle of this one."""
        general = self.instance or self.is_exim or not self.program
        return bool((_SECOND if general else _SECOND_OF_MAIL).search(self.text))


class FileClock:
    """Reads the times of one file, in the order of its lines.

    Times that name no zone are in `zone`. Times that name no year begin in `first_year`. If that is not known, each is
    taken for the last such time that is not after the file's last change (`changed`) by more than a day.
    """

    def __init__(self, zone: tzinfo, changed: datetime, first_year: int | None = None) -> None:
        self._zone = zone
        self._latest = changed + A_DAY
        self._first_year = first_year
        self.survey = Survey()
        self._last = ("", datetime.min.replace(tzinfo=UTC), False)

    def read(self, stamp: str) -> tuple[datetime, bool]:
        """Return the time in UTC, and whether the local time is ambiguous. Raises ValueError."""
        if self._last[0] != stamp:
            self._last = (stamp, *self._read(stamp))
        return self._last[1:]

    def _read(self, stamp: str) -> tuple[datetime, bool]:
        if _UNIX.fullmatch(stamp):
            return datetime.fromtimestamp(float(stamp), UTC), False
        local, zone_name = self._local(stamp)
        if local.tzinfo is not None:
            return local.astimezone(UTC), False
        local = local.replace(tzinfo=self._zone)
        both = (local, local.replace(fold=1))
        ambiguous = both[0].utcoffset() != both[1].utcoffset()
        if zone_name:
            local, ambiguous = next(each for each in both if each.tzname() == zone_name), False
        return local.astimezone(UTC), ambiguous

    def _local(self, stamp: str) -> tuple[datetime, str]:
        """Return the time as it is written, and the name of its zone; an empty string if it names no zone."""
        if _ISO_DATE.match(stamp):
            return datetime.fromisoformat(_without_blank(stamp)), ""
        words = stamp.split()
        if _ISO_DATE.match(words[1]):
            return _of_short_full(words)
        year = next((word for word in words if _YEAR.fullmatch(word)), "")
        month, day, time = [word for word in words if word != year][-3:]
        if not year:
            return self._in_its_year(f"{month} {day} {_FRACTION.sub('', time)}"), ""
        return datetime.fromisoformat(f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}T{time}"), ""

    def _in_its_year(self, stamp: str) -> datetime:
        turned = self.survey.note(stamp)
        if self._first_year is None:
            return years.last_before(stamp, self._latest, self._zone)
        return years.local(self._first_year + turned, stamp)


def _without_blank(stamp: str) -> str:
    """Return a time without the blank before its zone, and with a dot before fractions of a second."""
    return stamp.replace(" +", "+").replace(" -", "-").replace(",", ".")


def _of_short_full(words: list[str]) -> tuple[datetime, str]:
    _, day, time, zone = words
    local = datetime.fromisoformat(f"{day}T{time}")
    if zone in {"UTC", "GMT"}:
        return local.replace(tzinfo=UTC), ""
    if zone[0] in "+-":
        zone += ":00" if _HOURS.fullmatch(zone) else ""
        return datetime.fromisoformat(f"{day}T{time}{zone}"), ""
    return local, zone


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of a line before it is read, from its wrapping and from its file."""

    family: str  # the host of lines that name no host
    host: str = ""  # the host that the wrapping names
    moment: datetime | None = None


def take_apart(text: str, clock: FileClock, around: Around) -> LogLine | None:
    """Return the parts of a line; None if the line has none of the forms that are read."""
    found = _SYSLOG.match(text) or _RFC_5424.match(text)
    if found:
        return _line(found, clock, around, found["program"], found["pid"] or "")
    if found := _EXIM.match(text):
        if inner := _WITH_PROCESS.match(found["text"]):
            return _line(inner, clock, around, inner["program"], inner["pid"], stamp=found["stamp"])
        return _line(found, clock, around, "exim", "", of_mainlog=True)
    if around.moment and (found := _BARE.match(text)):
        return _line(found, clock, around, found["program"], found["pid"] or "")
    return None


def of_no_program(text: str, clock: FileClock, around: Around) -> LogLine | None:
    """Return a line that names no program, such as `last message repeated 3 times`; None for any other line.

    Such a line is known by the blank where a program's name would end, because no name has a blank in it.
    """
    found = _HEADED.match(text)
    if not found or until_ellipsis(text) != text:  # an ellipsis may stand for the program's name
        return None
    return _line(found, clock, around, "", "")


def until_ellipsis(text: str) -> str:
    """Return a text up to its first ellipsis, for which something was left out, as `journalctl --no-full` does."""
    return _ELLIPSIS.split(text, 1)[0]


def of_parts(header: tuple[str, str, str], text: str, around: Around) -> LogLine | None:
    """Return a line whose host, program and process id are known, as in a journal."""
    if around.moment is None or around.moment.year not in YEARS:
        return None
    named, name, pid = header
    instance, _, program = name.rpartition("/")
    if program in _EXIM_PROGRAMS and (own := _EXIM.match(text)):
        text = own["text"]
    return LogLine(around.moment, False, _host(named, around), instance, program, pid, text)


def _host(named: str, around: Around) -> str:
    return around.host or (around.family if named in _NAMELESS or not named else named)


def _line(
    found: re.Match[str],
    clock: FileClock,
    around: Around,
    name: str,
    pid: str,
    *,
    stamp: str = "",
    of_mainlog: bool = False,
) -> LogLine | None:
    parts = found.groupdict()
    try:
        moment, ambiguous = (around.moment, False) if around.moment else clock.read(stamp or parts["stamp"])
    except (ValueError, OverflowError, StopIteration):  # the second: no such year in UTC; the third: no such zone
        return None
    if moment.year not in YEARS:
        return None
    said = parts["text"] or ""
    instance, _, program = name.rpartition("/")
    if program in _EXIM_PROGRAMS and not of_mainlog and (own := _EXIM.match(said)):
        said = own["text"]
    host = _host(parts.get("host") or "", around)
    return LogLine(moment, ambiguous, host, instance, program, pid if pid != "-" else "", said, of_mainlog)
