"""Forecast: when a request that is queued now would start, and when the backlog of its site clears.

    from weir import forecast_site
    forecast_site("api.example.com", add=5_000).clears_in_s
    forecast_site("api.example.com", rate="5/s").clears_in_s

1. One query reads the site, its queue and its runs (sql/forecast.sql).
2. The simulation (simulation.py) computes when dispatch gives slots to the request, and to the last of the backlog.
3. Fetches that are not due yet may become due by these times. If there are such fetches, steps 1 and 2 are repeated
   with these times.

There is no forecast for a site that is paused until an operator resumes it, and for one that has answered nothing since
its last refusal: both times are infinite.

A forecast holds if nothing else happens: no `throttle` at the same site, no missed slots, no new back-off. If
robots.txt cannot be read, the forecast is the earliest time: it assumes that robots.txt can be read the next time that
it is asked for.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypedDict

from weir.conf import settings
from weir.conf.texts.rates import parse_rate, rate_text, spelled
from weir.postgres.statements import Statement
from weir.ratelimit import gcra, round_trips, site_names
from weir.ratelimit.models import FARTHEST_S, LONG_AGO, PAUSED_FOREVER
from weir.ratelimit.sites import known_sites
from weir.workers import task_names
from weir.workers.fetches.dispatch import LONGEST_RUN, Horizon, horizon
from weir.workers.fetches.reports.simulation import Dispatching, ReservedRun, SiteTiming, start_after
from weir.workers.fetches.robots.rules import PATH
from weir.workers.processes.status import longest_round_trip_s
from weir.workers.schedule import tick_of

MOST_ADDED = 1_000_000
TICK_S = tick_of(task_names.DISPATCH)
SAME_S = 1e-6


class FoundRun(TypedDict):
    """A run that still has held fetches."""

    at_once: int
    starts_s: list[float]


class ForecastSite(NamedTuple):
    """What dispatch finds at a site, and what a new request would find there (sql/forecast.sql)."""

    is_new: bool
    name: str
    written_rate: str
    effective_interval: timedelta
    burst: int
    max_concurrency: int | None
    paused_until: datetime | None
    has_backlog: bool
    now: datetime
    state: str
    is_silent: bool
    backoff_error: str
    crawl_delay: timedelta | None
    interval_s: float
    spacing_s: float
    grace_s: float
    reserved_for_s: float
    held_for_s: float
    queued: int
    backlog: int
    ahead: int
    robots: int
    asks_robots: bool
    robots_held_for_s: float
    robots_error: str
    held_runs: list[FoundRun]


FORECAST = Statement("forecast", row=ForecastSite, commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What is expected of one site, at the moment at which the database was asked."""

    site: str  # the site of the host: its own, or the one that covers it
    is_new: bool  # there is no such site yet: the forecast is for a site at the default rate
    rate: str  # the rate of the interval, as it was written if a rate was written
    interval: timedelta
    max_concurrency: int | None
    state: str  # paused | unreachable | backed off | resting | running
    is_silent: bool  # it has answered nothing since its last refusal: when anything starts there is not known
    backoff_error: str  # why it is unreachable
    held_for_s: float  # until the pause or back-off ends; infinite for a pause until resumed
    queued: int
    not_due: int  # queued fetches that become due only after the others are cleared, and are left out
    ahead: int  # queued fetches that start before a new request
    asks_robots: bool  # a new request waits for the robots.txt of its origin, which starts before it
    robots_held_for_s: float  # until a robots.txt that cannot be read is asked for again; 0 if there is none
    robots_error: str  # whose robots.txt cannot be read, and why
    added: int
    is_supposed: bool  # the rate is not the site's own, but the `rate` that `forecast` was given
    starts_in_s: float  # until a new request of priority 0 starts; infinite if that is not known, or never
    clears_in_s: float  # until the last start of the backlog and the added requests, as above; 0 if there are none
    now: datetime  # by the database's clock


def forecast(host: str, add: int = 0, rate: str | None = None) -> Forecast:
    """Return a forecast of the host's site; with `add` more requests, or as if it had another `rate`.

    Reads only, and waits for no lock. A queued fetch that is not due yet counts if it will be due by the time at which
    slots are reserved for the due ones. A supposed rate counts from now on, because a new rate recalls the reserved
    slots; a Crawl-delay of robots.txt limits it, too. Raises InvalidSiteName for a text that does not name a host,
    and ValueError for `add` below 0 or above a million, and for a text that is not a rate.
    """
    if not 0 <= add <= MOST_ADDED:
        raise ValueError(f"add must be between 0 and {MOST_ADDED:,}, not {add}.")
    name = site_names.canonical(host)
    known = known_sites({name})
    round_trip_s = longest_round_trip_s()  # dispatch lengthens each run because of it
    ahead = horizon(round_trip_s)
    look = partial(_look, known[name].id if known else None, name, ahead.lookahead_s)
    supposed = partial(_supposed, rate=rate) if rate else _as_it_is
    added_grace_s = round_trips.added_grace_s(round_trip_s)

    def computed(row: ForecastSite) -> Forecast:
        found = _computed(supposed(row), add=add, added_grace_s=added_grace_s, ahead=ahead)
        return replace(found, is_supposed=bool(rate))

    first = computed(look())
    return computed(look(first.starts_in_s, first.clears_in_s)) if first.not_due else first


def _look(
    site_id: int | None, name: str, lookahead_s: float, starts_in_s: float = 0.0, clears_in_s: float = 0.0
) -> ForecastSite:
    """Read the site and its queue, with fetches that become due before the slots of these starts are reserved.

    Slots are reserved when their starts are as far away as the look-ahead.
    """
    reserved_in_s = (seconds - lookahead_s for seconds in (starts_in_s, clears_in_s))
    starts_within, clears_within = (min(max(0.0, seconds), FARTHEST_S) for seconds in reserved_in_s)
    origins = [f"https://{name}", f"http://{name}"]
    parameters = {
        "site": site_id,
        "name": name,
        "interval": parse_rate(settings.WEIR_DEFAULT_RATE),
        "written_rate": spelled(settings.WEIR_DEFAULT_RATE),
        "long_ago": LONG_AGO,
        "starts_within": starts_within,
        "clears_within": clears_within,
        "obey": settings.WEIR_OBEY_ROBOTS,
        "origins": origins,
        "robots_urls": [origin + PATH for origin in origins],
    }
    [row] = FORECAST(**parameters)
    return row


def _as_it_is(row: ForecastSite) -> ForecastSite:
    return row


def _supposed(row: ForecastSite, *, rate: str) -> ForecastSite:
    """Return the site as it would be if this rate were set now; a grace that was set stays, as in `Site` itself."""
    wanted = parse_rate(rate)
    interval = max(wanted, row.crawl_delay or wanted)
    is_default = abs(row.grace_s - gcra.grace_s(row.interval_s)) < SAME_S
    return row._replace(
        written_rate=spelled(rate),
        effective_interval=interval,
        interval_s=interval.total_seconds(),
        spacing_s=gcra.spacing_s(interval.total_seconds()),
        grace_s=gcra.grace_s(interval.total_seconds()) if is_default else row.grace_s,
        reserved_for_s=min(row.reserved_for_s, interval.total_seconds()),
    )


def _computed(row: ForecastSite, *, add: int, added_grace_s: float, ahead: Horizon) -> Forecast:
    held_for_s = math.inf if row.paused_until and row.paused_until >= PAUSED_FOREVER else row.held_for_s
    site = SiteTiming(
        interval_s=row.interval_s,
        spacing_s=row.spacing_s,
        grace_s=row.grace_s + added_grace_s,
        burst=row.burst,
        reserved_for_s=row.reserved_for_s,
        held_for_s=math.inf if row.is_silent else held_for_s,
        robots=row.robots,
        max_concurrency=row.max_concurrency,
        held_runs=tuple(ReservedRun(at_once=run["at_once"], starts_s=tuple(run["starts_s"])) for run in row.held_runs),
    )
    # If the robots.txt of a new request's origin is not known, it is queued before the request. If it could not be
    # read, it comes before the backlog, too: it is asked for when a fetcher claims the first fetch.
    asks = row.asks_robots or row.robots_held_for_s > 0
    asked = replace(site, robots=site.robots + asks)
    start_of = partial(start_in, is_active=row.has_backlog, from_s=row.robots_held_for_s, ahead=ahead)
    last, is_before = row.backlog + add - 1, asks and (add > 0 or row.robots_held_for_s > 0)
    return Forecast(
        site=row.name,
        is_new=row.is_new,
        rate=rate_text(row.effective_interval, row.written_rate),
        interval=row.effective_interval,
        max_concurrency=row.max_concurrency,
        state=row.state,
        is_silent=row.is_silent,
        backoff_error=row.backoff_error if row.state == "unreachable" else "",
        held_for_s=max(0.0, held_for_s),
        queued=row.queued,
        not_due=row.queued - row.backlog,
        ahead=row.ahead,
        asks_robots=row.asks_robots,
        robots_held_for_s=row.robots_held_for_s,
        robots_error=row.robots_error,
        added=add,
        is_supposed=False,
        starts_in_s=start_of(row.ahead + asks, asked),
        clears_in_s=start_of(last + is_before, asked if is_before else site) if last >= 0 else 0.0,
        now=row.now,
    )


def start_in(fetches: int, site: SiteTiming, *, is_active: bool, from_s: float, ahead: Horizon) -> float:
    """Return in how many seconds a fetch with `fetches` others before it starts, if none can start before `from_s`.

    If the backlog flag is inactive, the next request wakes dispatch. If the flag is active (`is_active`), or will be by
    `from_s`, the site waits for a tick.
    """
    if site.held_for_s == math.inf:
        return math.inf
    return start_after(
        fetches,
        site,
        Dispatching(
            next_tick_s=from_s + (TICK_S / 2 if is_active or from_s else 0.0),  # on average
            tick_s=TICK_S,
            refill_s=ahead.refill_s,
            lookahead_s=ahead.lookahead_s,
            travel_s=ahead.travel_s,
            longest_run=LONGEST_RUN,
        ),
    )
