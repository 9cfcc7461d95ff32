"""Delays: how many seconds apart a Crawl-delay or a Request-rate asks for. Pure.

RFC 9309 defines neither. The number at the beginning of the value counts, whatever follows it: otherwise Weir would be
faster than asked.
"""

import re

LONGEST_CRAWL_DELAY_S = 86_400.0
_NUMBER = r"(?P<number>(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:e[+-]?[0-9]+)?)"
_UNIT = r"[ \t]*(?P<unit>[a-z]*)(?![0-9_])"
_DELAY = re.compile(_NUMBER + _UNIT, re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"(?P<requests>[0-9]+)[ \t]*/[ \t]*" + _NUMBER + _UNIT, re.IGNORECASE | re.ASCII)
_UNITS = {"ms": 0.001, "mil": 0.001, "m": 60.0, "h": 3_600.0, "d": 86_400.0}  # by their beginnings; others are seconds


def seconds_between(key: str, value: str) -> float | None:
    """Return the seconds, at most a day; None for zero, and for a text that is not a number.

    A comma is a decimal point; `10s`, `10 seconds`, `5 min` and `1h` have a unit. `Request-rate: 2/1m` is two requests
    a minute; the hours of the day that may follow it are ignored.
    """
    is_rate = key[0] in "rR"
    found = (_RATE if is_rate else _DELAY).match(value.strip()[:100])
    if not found:
        return None
    unit = found["unit"].lower()
    scale = next((seconds for prefix, seconds in _UNITS.items() if unit.startswith(prefix)), 1.0)
    seconds = float(found["number"].replace(",", ".")) * scale
    if is_rate:
        requests = float(found["requests"])
        seconds = seconds / requests if requests else 0.0
    return min(seconds, LONGEST_CRAWL_DELAY_S) or None
