"""Timeline: the slots of one site from a minute ago to the look-ahead, and which fetches start next.

    from weir.workers.fetches.reports.timeline import timeline
    timeline(site_id).slots[-1].fate

1. One statement reads the slots, each with its fate (docs/glossary.md, "Fate"), and with its fetch (sql/timeline.sql).
   Another statement reads the fetches that ended lately (sql/newest_ended.sql).
2. A third statement reads the fetches that have slots, and the head of the queue (sql/next_starts.sql). The simulation
   says when the queued ones start (simulation.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypedDict

from django.db import transaction

from weir.postgres import planner
from weir.postgres.statements import Statement
from weir.ratelimit import round_trips
from weir.ratelimit.models import PAUSED_FOREVER
from weir.workers import task_names
from weir.workers.fetches.dispatch import Horizon, horizon
from weir.workers.fetches.jobs import longest_hold_s
from weir.workers.fetches.reports.forecast import FoundRun, start_in
from weir.workers.fetches.reports.simulation import ReservedRun, SiteTiming
from weir.workers.processes.status import longest_round_trip_s
from weir.workers.schedule import tick_of

PAST_S = 60.0
MOST_SLOTS = 2_000
NEWEST = 5_000  # the fetches that ended last, at any site: among these, the fetches of past slots are looked for
MOST_NEXT = 20
LOOKED_AT = 1_000  # fetches at the head of the queue
MARGIN_S = 2.0  # seconds for the statement that stores an outcome


class TimelineSlot(NamedTuple):
    """One slot. Its fetch is known while it is held; afterwards only if it is among the NEWEST, with its lateness."""

    id: int
    start_in_s: float  # negative if the start was so long ago
    fate: str  # reserved | used | given back | missed | void | unreported
    fetch_id: int | None
    run_id: int  # the first slot of its run that is shown
    run_size: int  # slots that were reserved together
    lateness_ms: float | None = None


class FoundSlot(NamedTuple):
    """A row of sql/timeline.sql."""

    id: int
    start_in_s: float
    fate: str
    fetch_id: int | None
    run_id: int
    run_size: int


class EndedFetch(NamedTuple):
    """A fetch that ended, and the slot that it had."""

    slot_id: int
    fetch_id: int
    lateness_ms: float | None


class NextStart(NamedTuple):
    """A fetch that has not started."""

    id: int
    url: str
    start_in_s: float  # infinite if it is not known, or the site is paused until it is resumed
    is_reserved: bool  # it has a slot; otherwise the start is estimated


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The slots of a site, by their starts, and the fetches that start next."""

    slots: list[TimelineSlot]
    has_more: bool  # slots farther from now were left out
    past_s: float
    ahead_s: float
    next_starts: list[NextStart]


class FoundFetch(TypedDict):
    """A fetch, and the seconds until its slot begins, or until it becomes due."""

    id: int
    url: str
    in_s: float


class FoundNext(NamedTuple):
    """The row of sql/next_starts.sql."""

    has_backlog: bool
    burst: int
    max_concurrency: int | None
    is_halted: bool
    is_silent: bool
    interval_s: float
    spacing_s: float
    grace_s: float
    reserved_for_s: float
    held_for_s: float
    held_runs: list[FoundRun]
    reserved: list[FoundFetch]
    queued: list[FoundFetch]


NEWEST_ENDED = Statement("newest_ended", row=EndedFetch, commits=False)
NEXT_STARTS = Statement("next_starts", row=FoundNext, commits=False)
TIMELINE = Statement("timeline", row=FoundSlot, commits=False)


def outcome_within_s() -> float:
    """Return how many seconds after the end of its run the outcome of a slot has usually come."""
    return longest_hold_s() + tick_of(task_names.SWEEP) + MARGIN_S


def timeline(site_id: int) -> Timeline:
    """Return the site's slots from a minute ago to the look-ahead, at most MOST_SLOTS, and the fetches that start next.

    Reads only, by indexes. The cost grows with the slots of all sites in that time, not with the size of the tables. A
    site that was deleted has no next starts.
    """
    round_trip_s = longest_round_trip_s()
    ahead = horizon(round_trip_s)
    window = {"past": PAST_S, "ahead": ahead.lookahead_s, "hold": outcome_within_s()}
    with transaction.atomic():
        planner.by_indexes()
        found_slots = TIMELINE(site=site_id, **window, most=MOST_SLOTS)
        ended = NEWEST_ENDED(site=site_id, past=PAST_S, newest=NEWEST)
        bounds = {"site": site_id, "most": MOST_NEXT, "looked_at": LOOKED_AT, "forever": PAUSED_FOREVER}
        found = NEXT_STARTS(**bounds)
    slots = _with_fetches(found_slots, ended)
    has_more = len(slots) > MOST_SLOTS
    if has_more:  # the statement returns one more, which lies farthest from now
        slots.remove(max(slots, key=lambda slot: abs(slot.start_in_s)))
    starts = [start for row in found for start in _next_starts(row, round_trip_s, ahead)]
    return Timeline(slots=slots, has_more=has_more, past_s=PAST_S, ahead_s=ahead.lookahead_s, next_starts=starts)


def _with_fetches(slots: Sequence[FoundSlot], ended: Sequence[EndedFetch]) -> list[TimelineSlot]:
    """Return the slots with the fetches that had them. A join in PostgreSQL could be slow: it would expect few rows."""
    of_slot = {fetch.slot_id: fetch for fetch in ended}
    return [
        TimelineSlot(*slot._replace(fetch_id=fetch.fetch_id), lateness_ms=fetch.lateness_ms)
        if (fetch := of_slot.get(slot.id))
        else TimelineSlot(*slot)
        for slot in slots
    ]


def _next_starts(row: FoundNext, round_trip_s: float, ahead: Horizon) -> list[NextStart]:
    """Return the fetches that have slots, and then those that are queued, with when they start.

    At a site that has answered nothing since its last refusal, only the next try is known.
    """
    site = SiteTiming(
        interval_s=row.interval_s,
        spacing_s=row.spacing_s,
        grace_s=row.grace_s + round_trips.added_grace_s(round_trip_s),
        burst=row.burst,
        reserved_for_s=row.reserved_for_s,
        held_for_s=math.inf if row.is_halted else row.held_for_s,
        max_concurrency=row.max_concurrency,
        held_runs=tuple(ReservedRun(at_once=run["at_once"], starts_s=tuple(run["starts_s"])) for run in row.held_runs),
    )
    start_of = partial(start_in, site=site, is_active=row.has_backlog, ahead=ahead)
    reserved = [NextStart(job["id"], job["url"], job["in_s"], is_reserved=True) for job in row.reserved]
    queued = [
        NextStart(
            job["id"],
            job["url"],
            math.inf if row.is_silent and (place or reserved) else start_of(place, from_s=job["in_s"]),
            is_reserved=False,
        )
        for place, job in enumerate(row.queued)
    ]
    return [*reserved, *queued][:MOST_NEXT]
