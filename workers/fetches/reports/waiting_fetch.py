"""Waiting fetch: a fetch with everything that can keep it waiting, read by one query, and when its turn comes."""

import math
from datetime import datetime, timedelta
from typing import NamedTuple

from weir.ratelimit import round_trips
from weir.ratelimit.models import PAUSED_FOREVER
from weir.workers.effects.names import HANDED_OVER
from weir.workers.fetches.dispatch import horizon
from weir.workers.fetches.reports.forecast import FoundRun, start_in
from weir.workers.fetches.reports.simulation import ReservedRun, SiteTiming
from weir.workers.processes.status import longest_round_trip_s


class UnknownFetch(LookupError):
    """There is no fetch with this id: there never was, or purge has deleted it."""

    def __init__(self, fetch_id: int) -> None:
        because = "no fetch was given this number (a transaction that rolls back leaves a gap), or it was purged"
        super().__init__(f"There is no fetch {fetch_id}: {because}. `manage.py fetches` lists the newest.")


class WaitingFetch(NamedTuple):
    """A fetch, and everything that can keep it waiting (sql/why.sql)."""

    id: int
    state: str
    site_id: int | None
    site: str
    origin: str | None
    attempts: int
    max_attempts: int
    status_code: int | None
    error: str
    not_before: datetime
    keeps_place: bool  # it waits for its robots.txt, or for an access token
    finished_at: datetime | None
    on_done: str
    on_done_again_at: datetime | None
    claimed_by: int | None
    lease_until: datetime | None
    slot_start: datetime | None
    now: datetime
    written_rate: str  # this field and those down to `reserved_for_s` are None if the fetch has no site
    interval: timedelta
    effective_interval: timedelta
    burst: int
    max_concurrency: int | None
    paused_until: datetime | None
    backed_off_until: datetime | None
    refused_until: datetime | None
    backoff_error: str
    backoff_reason: str
    backoff_level: int
    next_start: datetime
    due_at: datetime | None
    back_off: str | None  # unreachable, backed off, resting, or None; a pause may come on top
    is_silent: bool  # the site has answered nothing since its last refusal
    spacing_s: float
    grace_s: float
    reserved_for_s: float
    obeys_robots: bool
    robots_state: str | None
    robots_error: str | None
    robots_expires_at: datetime | None
    robots_fetch: int | None
    robots_fetch_state: str | None
    endpoint_id: int | None
    effect_id: int | None  # its request is made once
    share: str | None
    other_shares: int  # of the site, with which its share takes turns
    ahead: int
    at_once: int
    held_runs: list[FoundRun]

    @property
    def awaits_effect(self) -> bool:
        """Return whether its request may have been made, and the probe of its effect is asked."""
        return awaits_effect(self.effect_id, self.not_before)

    @property
    def effect_command(self) -> str:
        """Return the command that shows the effect of a fetch whose request is made once; "" for other fetches."""
        return f"manage.py effects show {self.effect_id}" if self.effect_id else ""


def awaits_effect(effect_id: int | None, not_before: datetime) -> bool:
    """Return whether a queued fetch waits until it is known what became of its effect."""
    return effect_id is not None and not_before >= HANDED_OVER


def starts_in_s(row: WaitingFetch, from_s: float) -> float:
    """Return in how many seconds the turn of a queued fetch comes, if nothing can start before `from_s`."""
    round_trip_s = longest_round_trip_s()  # dispatch lengthens each run because of it
    ends = [end for end in (row.paused_until, row.backed_off_until) if end is not None]
    held_for_s = max([-math.inf, *((end - row.now).total_seconds() for end in ends)])
    site = SiteTiming(
        interval_s=row.effective_interval.total_seconds(),
        spacing_s=row.spacing_s,
        grace_s=row.grace_s + round_trips.added_grace_s(round_trip_s),
        burst=row.burst,
        reserved_for_s=row.reserved_for_s,
        held_for_s=math.inf if row.paused_until and row.paused_until >= PAUSED_FOREVER else held_for_s,
        max_concurrency=row.max_concurrency,
        held_runs=tuple(ReservedRun(at_once=run["at_once"], starts_s=tuple(run["starts_s"])) for run in row.held_runs),
    )
    return start_in(row.ahead, site, is_active=True, from_s=from_s, ahead=horizon(round_trip_s))
