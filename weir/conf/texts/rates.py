"""Rates as text ("3/s", "1/10s", "100/h", "1/day") and as the interval between two starts. Pure functions."""

import math
import re
from contextlib import suppress
from datetime import timedelta

ACCEPTED_FORMS = "write COUNT/PERIOD, such as 3/s, 1/10s, 100/h or 1/day (periods: s, m, h, d)"
MICROSECOND = timedelta(microseconds=1)
FASTEST = timedelta(milliseconds=1)
SLOWEST = timedelta(days=366)

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_UNITS_US = {**{unit: seconds * 1_000_000 for unit, seconds in _SECONDS.items()}, "ms": 1_000, "us": 1}
_RATE = re.compile(r"\s*(?P<count>[0-9]{1,9})\s*/\s*(?P<periods>[0-9]{1,15})?\s*(?P<unit>[a-z]+)\s*", re.ASCII)
_DURATION = re.compile(r"\s*(?P<periods>[0-9]{1,9})\s*(?P<unit>[a-z]+)\s*", re.ASCII)


class InvalidRate(ValueError):
    """Not a rate, or out of range; the message names the accepted forms or the range."""


def parse_rate(text: str) -> timedelta:
    """Return the interval between two starts at this rate, rounded up to a microsecond: never faster than the rate.

    Raises InvalidRate for a text that is not a rate (its message has the accepted forms), and for a rate above 1000/s
    or below 1/366d.
    """
    match = _RATE.fullmatch(text.lower())
    if match is None or match["unit"] not in _UNITS_US or not int(match["count"]) or not int(match["periods"] or 1):
        raise InvalidRate(f"{text!r} is not a rate: {ACCEPTED_FORMS}.")
    period_us = int(match["periods"] or 1) * _UNITS_US[match["unit"]]
    interval_us = _interval_us(period_us, int(match["count"]))
    if period_us < int(match["count"]) * (FASTEST // MICROSECOND) or interval_us > SLOWEST // MICROSECOND:
        raise InvalidRate(f"{text!r} is out of range: rates go from 1000/s down to 1/366d.")
    return timedelta(microseconds=interval_us)


def _interval_us(period_us: int, count: int) -> int:
    # Negated floor division rounds up: 3/s is one start each 333,334 µs, never 333,333.
    return -(-period_us // count)


def format_rate(interval: timedelta) -> str:
    """Return the shortest usual spelling of the rate: `parse_rate(format_rate(i)) == i` for every interval."""
    interval_us = interval // MICROSECOND
    for unit in ("s", "m", "h", "d"):
        period_us = _SECONDS[unit] * 1_000_000
        for count in (period_us // interval_us, period_us // interval_us + 1):  # the interval was rounded up
            if count and period_us // count and _interval_us(period_us, count) == interval_us:
                return f"{count}/{unit}"
    for unit in ("d", "h", "m", "s"):
        periods, rest = divmod(interval_us, _SECONDS[unit] * 1_000_000)
        if not rest:
            return f"1/{periods}{unit}"
    return f"1/{interval_us}us"


def rate_text(interval: timedelta, written: str = "") -> str:
    """Return `written`, if this text stands for the interval; otherwise the spelling of `format_rate`."""
    with suppress(InvalidRate):
        if parse_rate(written) == interval:
            return written
    return format_rate(interval)


def spelled(text: str) -> str:
    """Return a rate that a person wrote, in small letters and without blanks."""
    return "".join(text.lower().split())


def parse_duration(text: str) -> timedelta:
    """Return the duration that "50ms", "90s", "10m", "2h" or "1d" stands for; a number without a unit means seconds.

    Raises ValueError for zero and for any other text, with these forms, and for more than 366 days.
    """
    if (duration := _duration(text)) is None:
        raise ValueError(f"{text!r} is not a length of time: write 30 (seconds), 50ms, 90s, 10m, 2h or 1d.")
    if duration > SLOWEST:
        raise ValueError(f"{text!r} is too long: at most 366d.")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return the duration in the largest unit in which it is a whole number, such as 90s: what parse_duration reads."""
    duration_us = duration // MICROSECOND
    for unit in ("d", "h", "m", "s", "ms"):
        periods, rest = divmod(duration_us, _UNITS_US[unit])
        if periods and not rest:
            return f"{periods}{unit}"
    return f"{duration_us}us" if duration_us else "0s"


def _duration(text: str) -> timedelta | None:
    """Return the duration, or None if the text is not one. If the text exceeds the limit, so does the result."""
    if match := _DURATION.fullmatch(text.lower()):
        return int(match["periods"]) * _UNITS_US.get(match["unit"], 0) * MICROSECOND or None
    with suppress(ValueError):
        if 0 < (length_s := float(text)) < math.inf:  # false for NaN
            return timedelta(seconds=min(length_s, 2 * SLOWEST.total_seconds())) or None
    return None
