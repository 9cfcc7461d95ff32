"""Rests: what a fetcher reports to ratelimit about sites that are to be left alone, and what it need not. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from weir.ratelimit.models import LONG_AGO
from weir.ratelimit.pacing import NEVER
from weir.workers.fetches.fetcher.refusals.asked import AskedPause
from weir.workers.fetches.fetcher.remembered import Remembered

MOST_TOLD = 20_000  # sites for which the end of their rest is remembered
SAME_S = 1.0  # seconds: resets are written in whole seconds, so two answers about the same moment may differ by this
AGAIN_AFTER_S = 1.0  # seconds after which the same rest is reported again: an operator may have resumed the site


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteRest:
    """One slot's answer says: leave the site alone for `seconds`, or `until` a moment; if neither, for a while.

    With an `error`, there was no answer: the site cannot be reached.
    """

    site: str
    slot_id: int
    seconds: float | None = None
    until: datetime | None = None  # by the site's clock, if the answer has no Date
    is_refusal: bool = True  # if not, a quota is used up
    reason: str = ""
    error: str = ""


def rest_of(site: str, slot_id: int, asked: AskedPause) -> SiteRest:
    """Return the rest to report because of an answer to the request of this slot."""
    return SiteRest(
        site=site,
        slot_id=slot_id,
        seconds=asked.seconds,
        until=asked.until,
        is_refusal=asked.is_refusal,
        reason=asked.reason,
    )


def merged(rests: Iterable[SiteRest]) -> list[SiteRest]:
    """Return one rest for each site, the longest that was asked for, in the order in which the sites came first.

    A site has several rests if some answers state seconds and others a moment, because only the database's clock shows
    how far away a moment is; or if some rests are refusals and others used-up quotas.
    """
    by_site: dict[tuple[str, bool, bool], SiteRest] = {}
    for new in rests:
        key = new.site, new.until is None, new.is_refusal
        old = by_site.get(key)
        by_site[key] = new if old is None else _both(old, new)
    return list(by_site.values())


def _both(old: SiteRest, new: SiteRest) -> SiteRest:
    longer = max(old, new, key=lambda rest: (rest.seconds or 0.0, rest.until or LONG_AGO))
    return replace(
        longer,
        slot_id=max(old.slot_id, new.slot_id),
        error=old.error and new.error,  # a site that refuses can be reached
    )


class ToldQuotas:
    """The used-up quotas that one fetcher has reported: a site says so in each answer, and need be reported once."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s  # the longest time for which a site rests
        # By site: the end of the rest, and when it was reported.
        self._told: Remembered[int, tuple[float, float]] = Remembered(MOST_TOLD)

    def is_news(self, site_id: int, asked: AskedPause, *, now: float, time_s: float) -> bool:
        """Return whether this rest ends later than the reported one, or was reported more than AGAIN_AFTER_S ago.

        If so, it is remembered as reported. `now` is by our own clock (clock.py), `time_s` in seconds since 1970.
        """
        lasts_s = (asked.seconds or 0.0) if asked.until is None else asked.until.timestamp() - time_s
        until = now + min(lasts_s, self._longest_s)
        told_until, told_at = self._told.get(site_id, (NEVER, NEVER))
        if until <= told_until + SAME_S and now < told_at + AGAIN_AFTER_S:
            return False
        self._told.note(site_id, (until, now))
        return True
