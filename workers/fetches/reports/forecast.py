"""Forecast: when a request that is queued now would start, and when the backlog of its site clears.

    from workers.fetches.forecast import forecast
    forecast("api.example.com", add=5_000).clears_in_s

It is what dispatch will do if nothing else happens (booking.py): no `throttle` at the same site, no missed slots, no
back-off to come. Where robots.txt cannot be read it is the earliest that can be: if it can be read next time.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings

from postgres import statements
from ratelimit import site_names
from ratelimit.models import FARTHEST_S, LONG_AGO, PAUSED_FOREVER
from ratelimit.rates import parse_rate
from ratelimit.sites import known_sites
from workers import task_names
from workers.fetches.dispatch import LONGEST_RUN, REFILL, TRAVEL
from workers.fetches.reports.simulation import Dispatching, HeldRun, SiteTiming, start_after
from workers.fetches.robots.rules import PATH
from workers.schedule import tick_of

_query = partial(statements.run_within, "workers.fetches.reports")

MOST_ADDED = 1_000_000
TICK_S = tick_of(task_names.DISPATCH)


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What is to be expected of one site, at the moment the database was asked."""

    site: str  # the site: the host's own, or the one that covers it
    is_new: bool  # there is no such site yet: this holds at the default rate
    interval: timedelta
    max_concurrency: int | None
    state: str  # paused | backed off | running
    held_for_s: float  # until the pause or back-off ends; infinite for a pause until resumed
    queued: int
    not_due: int  # of them: those whose time comes after the others are cleared, and which are left out
    ahead: int  # of them: those that start before a new request
    asks_robots: bool  # a new request waits for the robots.txt of its origin, which starts before it
    robots_held_for_s: float  # until the robots.txt, which cannot be read, is asked for again; 0 if it can, or need not
    robots_error: str  # of which origin, and why it cannot be read
    added: int
    starts_in_s: float  # a request of priority 0; infinite while paused until resumed
    clears_in_s: float  # until the last start of the backlog and what is added; 0 if there is nothing
    now: datetime  # by the database's clock


def forecast(host: str, add: int = 0) -> Forecast:
    """Return what is to be expected of the site to which URLs of the host go; `add` more requests are reckoned in.

    Reads only, and waits for nobody. A queued fetch that is not due yet counts if it will be by the time those that are
    due have been booked. Raises ratelimit.sites.InvalidSiteName for what names no host, ValueError for `add` below 0 or
    above a million.
    """
    if not 0 <= add <= MOST_ADDED:
        raise ValueError(f"add must be between 0 and {MOST_ADDED:,}, not {add}.")
    name = site_names.canonical(host)
    known = known_sites({name})
    look = partial(_look, known[name].id if known else None, name)
    told = _reckoned(look(), add)
    return _reckoned(look(told.starts_in_s, told.clears_in_s), add) if told.not_due else told


def _look(site_id: int | None, name: str, starts_in_s: float = 0.0, clears_in_s: float = 0.0) -> list[Any]:
    """Count with those that become due before such starts are booked, which is up to the look-ahead earlier."""
    booked = (seconds - settings.WEIR_LOOKAHEAD for seconds in (starts_in_s, clears_in_s))
    starts_within, clears_within = (min(max(0.0, seconds), FARTHEST_S) for seconds in booked)
    origins = [f"https://{name}", f"http://{name}"]
    parameters = {
        "site": site_id,
        "name": name,
        "interval": parse_rate(settings.WEIR_DEFAULT_RATE),
        "long_ago": LONG_AGO,
        "starts_within": starts_within,
        "clears_within": clears_within,
        "obey": settings.WEIR_OBEY_ROBOTS,
        "origins": origins,
        "robots_urls": [origin + PATH for origin in origins],
    }
    return _query("forecast", parameters)


def _reckoned(rows: list[Any], add: int) -> Forecast:
    [row] = rows
    held_for_s = math.inf if row.paused_until and row.paused_until >= PAUSED_FOREVER else row.held_for_s
    site = SiteTiming(
        interval_s=row.interval_s,
        spacing_s=row.spacing_s,
        grace_s=row.grace_s,
        burst=row.burst,
        reserved_for_s=row.reserved_for_s,
        held_for_s=held_for_s,
        robots=row.robots,
        max_concurrency=row.max_concurrency,
        held_runs=tuple(HeldRun(at_once=run["at_once"], starts_s=tuple(run["starts_s"])) for run in row.held_runs),
    )
    # A new request of an origin whose robots.txt is not known has that queued before it. One that could not be read is
    # before the backlog, too: whichever fetch comes to a fetcher first then has it asked for.
    asks = row.asks_robots or row.robots_held_for_s > 0
    asked = replace(site, robots=site.robots + asks)
    start_of = partial(_start_after, is_on=row.has_backlog, from_s=row.robots_held_for_s)
    last, is_before = row.backlog + add - 1, asks and (add > 0 or row.robots_held_for_s > 0)
    return Forecast(
        site=row.name,
        is_new=row.is_new,
        interval=row.effective_interval,
        max_concurrency=row.max_concurrency,
        state=row.state,
        held_for_s=max(0.0, held_for_s),
        queued=row.queued,
        not_due=row.queued - row.backlog,
        ahead=row.ahead,
        asks_robots=row.asks_robots,
        robots_held_for_s=row.robots_held_for_s,
        robots_error=row.robots_error,
        added=add,
        starts_in_s=start_of(row.ahead + asks, asked),
        clears_in_s=start_of(last + is_before, asked if is_before else site) if last >= 0 else 0.0,
        now=row.now,
    )


def _start_after(ahead: int, site: SiteTiming, *, is_on: bool, from_s: float) -> float:
    """Return when that start is, if dispatch may go about it from `from_s` on.

    A site that is off is woken by its next request; one that is on, or by then is, waits for a tick.
    """
    if site.held_for_s == math.inf:
        return math.inf
    return start_after(
        ahead,
        site,
        Dispatching(
            next_tick_s=from_s + (TICK_S / 2 if is_on or from_s else 0.0),  # on average
            tick_s=TICK_S,
            refill_s=min(REFILL, settings.WEIR_LOOKAHEAD),
            lookahead_s=settings.WEIR_LOOKAHEAD,
            travel_s=TRAVEL,
            longest_run=LONGEST_RUN,
        ),
    )
