"""Refusals: answers of 429 and 503, by which a site refuses more requests, and the time that it asks for. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOO_MANY_REQUESTS = 429
UNAVAILABLE = 503
REFUSING = frozenset({TOO_MANY_REQUESTS, UNAVAILABLE})
_SECONDS = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The answer to the request of one slot refused more; at most one of `seconds` and `until` is stated.

    With an `error`, there was no answer: the site cannot be reached.
    """

    site: str
    slot_id: int
    seconds: float | None = None
    until: datetime | None = None  # by the site's clock, where the answer has no Date
    error: str = ""


def refusal(*, site: str, slot_id: int, retry_after: str, date: str) -> Refusal:
    """Read an answer's headers Retry-After and Date (RFC 9110, 10.2.3), as they are or empty.

    A date is counted from the answer's own Date, so that a wrong clock is wrong in both. A time that is not in the
    future, and a text that is neither a number nor a date, count as not stated.
    """
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return Refusal(site=site, slot_id=slot_id, seconds=float(text) or None)
    moment, answered_at = _moment(text), _moment(date)
    if moment is None or answered_at is None:
        return Refusal(site=site, slot_id=slot_id, until=moment)
    seconds = (moment - answered_at).total_seconds()
    return Refusal(site=site, slot_id=slot_id, seconds=seconds if seconds > 0 else None)


def merged(refusals: Iterable[Refusal]) -> list[Refusal]:
    """Return one refusal for each site, with the longest time that any of its refusals asks for.

    There are two for a site where some state a date: only the database's clock can tell how far away that is.
    """
    by_site: dict[tuple[str, bool], Refusal] = {}
    for new in refusals:
        key = new.site, new.until is None
        old = by_site.get(key, new)
        by_site[key] = Refusal(
            site=new.site,
            slot_id=max(old.slot_id, new.slot_id),
            seconds=max((s for s in (old.seconds, new.seconds) if s is not None), default=None),
            until=max((u for u in (old.until, new.until) if u is not None), default=None),
            error=old.error and new.error,  # a site that refuses is reached
        )
    return list(by_site.values())


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the second for years and zones of many digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
