"""A line of a mail server's log, taken apart: when, where, which program, and what it says.

These beginnings are read: that of syslog, `Nov 23 17:20:14 host program[pid]: text` (RFC 3164, 4.1.1), also without
the host and with a year; the same with a time of RFC 3339, as rsyslog and `journalctl -o short-iso` write it, and with
those of `-o short-full` and `-o short-unix`; RFC 5424; and that of Exim's mainlog, `2026-11-23 17:20:14 text`.
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
YEARS = range(1970, 9_999)  # in others no e-mail was logged, and they are too near to the limits of a datetime
_EXIM_PROGRAMS = ("exim", "exim4")
_NAMELESS = frozenset({"-", "localhost", "localhost.localdomain", "(none)"})  # names that many hosts have
# Two lines that ran together: the end of the first one is missing, and the time of the second one stands in it, with
# something after it. In a line of another program it matters only if what follows is of a mail server. Each part has
# a bound: strangers shape texts, and an unbounded part takes quadratic time.
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
    """One line. If it names no host, `host` is the one that is given for all such lines of its file."""

    moment: datetime  # UTC
    ambiguous: bool  # its time is one of two, because the clock was set back
    host: str
    instance: str  # such as `postfix` or `postfix-out/submission`; empty for a program that has only one name
    program: str  # empty: one that does not name itself
    pid: str
    text: str
    of_mainlog: bool = False  # it has the form of Exim's own log, and may be of another program

    @property
    def is_exim(self) -> bool:
        """Whether Exim wrote it."""
        return self.program in _EXIM_PROGRAMS

    @property
    def has_second(self) -> bool:
        """Whether another line begins in the middle of this one."""
        general = self.instance or self.is_exim or not self.program
        return bool((_SECOND if general else _SECOND_OF_MAIL).search(self.text))


class FileClock:
    """Reads the times of one file, in the order of its lines.

    Those without a zone are in `zone`. Those without a year begin in `first_year`; if that is not known, each is the
    last such time that is not in the future of the file.
    """

    def __init__(self, zone: tzinfo, changed: datetime, first_year: int | None = None) -> None:
        self._zone = zone
        self._latest = changed + A_DAY
        self._first_year = first_year
        self.survey = Survey()
        self._last = ("", datetime.min.replace(tzinfo=UTC), False)

    def read(self, stamp: str) -> tuple[datetime, bool]:
        """Return the time in UTC, and whether it is ambiguous. Raises ValueError."""
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
        """Return the time as it is written, and the name of its zone, if it has one."""
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
    """Return a time without the blank before its zone."""
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
    """What is known of a line before it is read: what its wrapping says, and what holds for all lines of its file."""

    family: str  # the host of lines that name none
    host: str = ""  # the one that the wrapping names
    moment: datetime | None = None


def take_apart(text: str, clock: FileClock, around: Around) -> LogLine | None:
    """Return the parts of a line; None if it begins in none of the ways that are read."""
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
    """Return a line without a program's name, such as `last message repeated 3 times`: no name has a blank in it."""
    found = _HEADED.match(text)
    if not found or until_ellipsis(text) != text:  # the program's name may be what was left out
        return None
    return _line(found, clock, around, "", "")


def until_ellipsis(text: str) -> str:
    """Return a text up to where something was left out of it, as by `journalctl --no-full`, even in its middle."""
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
    except (ValueError, OverflowError, StopIteration):  # the second: a year that UTC does not have; the third: a zone
        return None
    if moment.year not in YEARS:
        return None
    said = parts["text"] or ""
    instance, _, program = name.rpartition("/")
    if program in _EXIM_PROGRAMS and not of_mainlog and (own := _EXIM.match(said)):
        said = own["text"]
    host = _host(parts.get("host") or "", around)
    return LogLine(moment, ambiguous, host, instance, program, pid if pid != "-" else "", said, of_mainlog)
