"""The times that headers state, in all the forms in which sites write them. Pure.

The standard knows whole seconds and dates (RFC 9110, 10.2.3). Sites write decimals, durations with units (6m0s),
seconds or milliseconds since 1970, ISO 8601, leap seconds and 24:00:00 as well. If one of these were not understood,
the fetcher would come back sooner than asked.

The sender may be hostile: only short values are read, and few of them. What cannot be read states nothing.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from weir.ratelimit.models import LONG_AGO

MOST_LINES = 8  # lines of one header that are read
LONGEST_LINE = 1_024  # bytes of a value with the blanks around it
LONGEST = 64  # characters of a value without these blanks: the longest date has half as many
BLANKS = b" \t"

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?", re.ASCII)
_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ms|[dhms])", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_TIME_OF_DAY = re.compile(r"(?<![0-9])([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?![0-9])", re.ASCII)
_ISO = re.compile(r"[0-9]{4}-.*", re.ASCII)
# Numbers that can only be moments: as a duration, the smallest is 31 years. Seconds since 1970 reach to the year 2286.
_EPOCH_S = range(10**9, 10**10)
_EPOCH_MS = range(10**12, 10**13)


class Time(NamedTuple):
    """A time to wait: seconds, more than 0, from the answer on; or a moment, if the answer has no Date."""

    seconds: float | None
    until: datetime | None
    text: str  # as it was written, in printable characters of ASCII; or ""

    @property
    def length(self) -> tuple[float, datetime]:
        """Return the key by which times are compared: two of one answer are hardly ever of different kinds."""
        return self.seconds or 0.0, self.until or LONG_AGO


def longest(lines: Sequence[bytes], date: Sequence[bytes]) -> Time | None:
    """Return the longest time that these lines of one header state; None if they state none in the future.

    A date is counted from the answer's own Date, whose lines `date` has: if the site's clock is wrong, both are.
    """
    times = [time for text in texts(lines) if (time := _time(text, date)) is not None]
    return max(times, key=lambda time: time.length, default=None)


def are_readable(lines: Sequence[bytes]) -> bool:
    """Return whether any of these lines states a time, even one that is over."""
    return any(_NUMBER.fullmatch(text) or _duration_s(text) is not None or _moment(text) for text in texts(lines))


def moment(lines: Sequence[bytes]) -> datetime | None:
    """Return the first date that can be read."""
    return next((found for text in texts(lines) if (found := _moment(text)) is not None), None)


def texts(lines: Sequence[bytes]) -> Iterator[str]:
    """Yield the values of a header, of which several may stand on one line, as a list (RFC 9110, 5.3)."""
    for line in lines[:MOST_LINES]:
        raw = line.strip(BLANKS) if len(line) <= LONGEST_LINE else b""
        text = raw.decode() if len(raw) <= LONGEST and raw.isascii() else ""
        if text and text.isprintable():  # what is read is stored and shown
            yield from _listed(text)


def _listed(text: str) -> list[str]:
    """Return the members of a list; the comma after a day of the week does not end one."""
    members: list[str] = []
    for part in text.split(","):
        if members and members[-1].isalpha():
            members[-1] += f", {part.strip()}"
        else:
            members.append(part.strip())
    return members


def _time(text: str, date: Sequence[bytes]) -> Time | None:
    if (duration_s := _duration_s(text)) is not None:
        return Time(float(math.ceil(duration_s)), None, text) if duration_s else None
    if not _NUMBER.fullmatch(text):
        found = _moment(text)
    else:
        number = float(text)
        if int(number) not in _EPOCH_S and int(number) not in _EPOCH_MS:
            return Time(float(math.ceil(number)), None, text) if number else None
        found = datetime.fromtimestamp(number if int(number) in _EPOCH_S else number / 1000, UTC)
    if found is None or (answered_at := moment(date)) is None:
        return None if found is None else Time(None, found, text)
    seconds = float(math.ceil((found - answered_at).total_seconds()))
    return Time(seconds, None, text) if seconds > 0 else None


def _duration_s(text: str) -> float | None:
    """Read a duration of which each part has its unit; None if it is not one."""
    parts = _PART.findall(text.lower()) if _DURATION.fullmatch(text.lower()) else []
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts) if parts else None


def _moment(text: str) -> datetime | None:
    """Read a date of HTTP or ISO 8601. The time of day is added to midnight: it may be 24:00:00, or 23:59:60."""
    found = _TIME_OF_DAY.search(text)
    since_midnight = timedelta(0)
    if found is not None:
        hour, minute, second = (int(digits) for digits in found.groups())
        if minute > 59 or second > 60 or hour * 3600 + minute * 60 + second > 86_400:  # noqa: PLR2004
            return None
        since_midnight = timedelta(hours=hour, minutes=minute, seconds=second)
        text = f"{text[: found.start()]}00:00:00{text[found.end() :]}"
    try:
        midnight = datetime.fromisoformat(text.upper()) if _ISO.fullmatch(text) else parsedate_to_datetime(text)
        return (midnight if midnight.tzinfo else midnight.replace(tzinfo=UTC)) + since_midnight
    except (ValueError, OverflowError, IndexError, TypeError):  # what the e-mail parser raises for nonsense
        return None
