"""Whether an answer, besides its meaning for the fetch, asks us to leave its site alone for some time. Pure.

There are two kinds. A refusal says that a request was too much: 429, 503, and more (`TEMPORARY`, or the statuses that
the site's settings name). A used-up quota is stated before any request is refused (quotas.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weir.ratelimit.models import ALWAYS_REFUSING
from weir.workers.fetches.fetcher.refusals import quotas, times
from weir.workers.fetches.fetcher.refusals.times import Time

# If a site's settings name no statuses, these are refusals if the answer says until when; otherwise they are final.
TEMPORARY: Final = frozenset({403, 413, 420, 502, 529, 999})

_FIRST = frozenset({b"R", b"r", b"X", b"x"})  # first letters of the headers that are read; no others are looked up
_NAMES = quotas.NAMES | {b"retry-after"}
_REFUSED = 400

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedPause:
    """The site is to be left alone for `seconds`, or `until` a moment; if neither is set, for a time that we choose."""

    seconds: float | None = None
    until: datetime | None = None  # by the site's clock, if the answer has no Date
    reason: str  # what the answer said: a clause, for people
    is_refusal: bool  # if not, the answer is an ordinary one, but a quota is used up


def asks_to_rest(status: int, headers: Headers, refusing: Sequence[int] | None = None) -> AskedPause | None:
    """Return what the answer asks for its site; None if it asks for nothing, like nearly all answers.

    `refusing` are the statuses that the settings of the site name. A Retry-After counts before a quota.
    """
    some = [line for line in headers if line[0][:1] in _FIRST]
    if not some and status < _REFUSED:
        return None
    found = _by_name(some)
    surely = status in (ALWAYS_REFUSING if refusing is None else refusing)
    if not found and not surely:
        return None
    date = _lines(headers, b"date")
    after = times.longest(found.get(b"retry-after", ()), date)
    quota = quotas.used_up(found, date, is_refused=surely)
    is_temporary = refusing is None and status in TEMPORARY
    if surely or (is_temporary and (after or (quota and quota.is_stated))):
        return _refusal(status, after, quota)
    if quota is None:
        return None
    reason = f"its quota is used up ({quota.header})"
    return AskedPause(seconds=quota.time.seconds, until=quota.time.until, reason=reason, is_refusal=False)


def redirect_wait_s(headers: Headers, longest_s: float) -> float:
    """Return for how many seconds a redirect asks us to wait before it is followed (RFC 9110, 10.2.3)."""
    if not (lines := _lines(headers, b"retry-after")):
        return 0.0
    after = times.longest(lines, _lines(headers, b"date"))
    return min(longest_s, (after and after.seconds) or 0.0)


def _refusal(status: int, after: Time | None, quota: quotas.UsedUp | None) -> AskedPause:
    if after:
        reason = f"it answered {status} with Retry-After: {after.text}"
        return AskedPause(seconds=after.seconds, until=after.until, reason=reason, is_refusal=True)
    if quota and quota.is_stated:
        reason = f"it answered {status}, and its quota is used up ({quota.header})"
        return AskedPause(seconds=quota.time.seconds, until=quota.time.until, reason=reason, is_refusal=True)
    return AskedPause(reason=f"it answered {status}", is_refusal=True)


def _by_name(headers: Headers) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if (key := name.lower()) in _NAMES:
            found.setdefault(key, []).append(value)
    return found


def _lines(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if len(key) == len(name) and key.lower() == name]
