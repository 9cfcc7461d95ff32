"""Forecast: when a request that is queued now would start, and when the backlog of its lane clears.

    from workers.fetches.forecast import forecast
    forecast("api.example.com", add=5_000).clears_in_s

It is what dispatch will do if nothing else happens (booking.py): no `throttle` in the same lane, no missed slots, no
back-off to come.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from postgres import statements
from ratelimit import lanes
from ratelimit.models import PAUSED_FOREVER
from workers.fetches.booking import Dispatching, HeldRun, Lane, start_after
from workers.fetches.dispatch import LONGEST_RUN, TRAVEL
from workers.fetches.enqueue import known_sites, sites_of
from workers.fetches.robots import PATH
from workers.schedule import SCHEDULE

_run = partial(statements.run_within, "workers.fetches")

MOST_ADDED = 1_000_000
FARTHEST_S = 100 * 366 * 86_400.0  # PostgreSQL has no point in time for everything
TICK_S = next(entry.every.total_seconds() for entry in SCHEDULE if entry.task == "workers.tasks.dispatch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What is to be expected of one lane, at the moment the database was asked."""

    site: str  # the lane: the host's own, or the one that covers it
    is_new: bool  # there is no such site yet: this holds at the default rate
    interval: timedelta
    max_concurrency: int | None
    state: str  # paused | backed off | running
    held_for_s: float  # until the pause or back-off ends; infinite for a pause until resumed
    queued: int
    not_due: int  # of them: those whose time comes after the others are cleared, and which are left out
    ahead: int  # of them: those that start before a new request
    asks_robots: bool  # a new request waits for the robots.txt of its origin, which starts before it
    added: int
    starts_in_s: float  # a request of priority 0; infinite while paused until resumed
    clears_in_s: float  # until the last start of the backlog and what is added; 0 if there is nothing
    now: datetime  # by the database's clock


def forecast(host: str, add: int = 0) -> Forecast:
    """Return what is to be expected of the lane to which URLs of the host go; `add` more requests are reckoned in.

    Changes nothing. A queued fetch that is not due yet counts if it will be by the time those that are due have been
    booked. Raises ratelimit.lanes.InvalidLane for what names no host, ValueError for `add` below 0 or above a million.
    """
    if not 0 <= add <= MOST_ADDED:
        raise ValueError(f"add must be between 0 and {MOST_ADDED:,}, not {add}.")
    name = lanes.canonical(host)
    with transaction.atomic():
        is_new = not known_sites({name})
        look = partial(_look, sites_of({name})[name], name)
        told = _reckoned(look(), add, is_new=is_new)
        if told.not_due:
            told = _reckoned(look(told.starts_in_s, told.clears_in_s), add, is_new=is_new)
        if is_new:  # asking about a site does not create it
            transaction.set_rollback(True)
    return told


def _look(site_id: int, name: str, starts_in_s: float = 0.0, clears_in_s: float = 0.0) -> list[Any]:
    """Count with those that become due before such starts are booked, which is up to the look-ahead earlier."""
    booked = (seconds - settings.WEIR_LOOKAHEAD for seconds in (starts_in_s, clears_in_s))
    starts_within, clears_within = (min(max(0.0, seconds), FARTHEST_S) for seconds in booked)
    origins = [f"https://{name}", f"http://{name}"]
    parameters = {
        "site": site_id,
        "starts_within": starts_within,
        "clears_within": clears_within,
        "obey": settings.WEIR_OBEY_ROBOTS,
        "origins": origins,
        "robots_urls": [origin + PATH for origin in origins],
    }
    return _run("forecast", parameters)


def _reckoned(rows: list[Any], add: int, *, is_new: bool) -> Forecast:
    [row] = rows
    held_for_s = math.inf if row.paused_until and row.paused_until >= PAUSED_FOREVER else row.held_for_s
    lane = Lane(
        interval_s=row.interval_s,
        spacing_s=row.spacing_s,
        grace_s=row.grace_s,
        burst=row.burst,
        booked_for_s=row.booked_for_s,
        held_for_s=held_for_s,
        robots=row.robots,
        max_concurrency=row.max_concurrency,
        held_runs=tuple(HeldRun(at_once=run["at_once"], starts_s=tuple(run["starts_s"])) for run in row.held_runs),
    )
    # A new request of an origin whose robots.txt is not known has that queued before it.
    asked = replace(lane, robots=lane.robots + 1) if row.asks_robots else lane
    start_of = partial(_start_after, is_on=row.has_backlog)
    last = row.backlog + add - 1
    return Forecast(
        site=row.name,
        is_new=is_new,
        interval=row.effective_interval,
        max_concurrency=row.max_concurrency,
        state=row.state,
        held_for_s=max(0.0, held_for_s),
        queued=row.queued,
        not_due=row.queued - row.backlog,
        ahead=row.ahead,
        asks_robots=row.asks_robots,
        added=add,
        starts_in_s=start_of(row.ahead + row.asks_robots, asked),
        clears_in_s=start_of(last + row.asks_robots, asked) if add else start_of(last, lane) if row.backlog else 0.0,
        now=row.now,
    )


def _start_after(ahead: int, lane: Lane, *, is_on: bool) -> float:
    """Return when that start is; a lane that is off is woken by its next request, one that is on waits for a tick."""
    if lane.held_for_s == math.inf:
        return math.inf
    return start_after(
        ahead,
        lane,
        Dispatching(
            next_tick_s=TICK_S / 2 if is_on else 0.0,  # on average
            tick_s=TICK_S,
            lookahead_s=settings.WEIR_LOOKAHEAD,
            travel_s=TRAVEL,
            longest_run=LONGEST_RUN,
        ),
    )
