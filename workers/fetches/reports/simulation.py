"""Simulation: which slots dispatch will reserve, and when, step by step like dispatch.sql. Pure.

All times are seconds from now. The result is right as long as nothing else happens at the site: only dispatch reserves
there, no run is missed, and no rate, pause or back-off changes.
"""

import math
from dataclasses import dataclass

from weir.ratelimit import gcra


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservedRun:
    """A run that has been reserved: how many of its fetches may be in flight together, and its starts."""

    at_once: int
    starts_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteTiming:
    """What dispatch knows of a site."""

    interval_s: float
    spacing_s: float
    grace_s: float
    burst: int = 1
    reserved_for_s: float  # until the next free start; negative if the site has been free for so long
    held_for_s: float = -math.inf  # until a pause or back-off ends
    robots: int = 0  # queued robots.txt files, which go first, in runs of their own
    max_concurrency: int | None = None
    held_runs: tuple[ReservedRun, ...] = ()  # the runs that count for max_concurrency


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatching:
    """The times and sizes with which dispatch works."""

    next_tick_s: float
    tick_s: float
    refill_s: float  # a site that is reserved less far ahead is due
    lookahead_s: float  # how far ahead such a site is then reserved
    travel_s: float
    longest_run: int


def start_after(ahead: int, site: SiteTiming, dispatching: Dispatching) -> float:
    """Return when a queued fetch starts that has `ahead` others before it, including robots.txt files; all are due.

    In each tick, a site that is due is reserved up to the look-ahead, in one run. The slots of a run are a spacing
    apart, and each hand-over to the next run costs a grace. With `max_concurrency`, a fetch is assumed to end when it
    starts, because it is not known how long the site takes to answer. If that is long, the real start is later.
    """
    tolerance_s = gcra.tolerance_s(site.burst, site.interval_s)
    now, next_start, robots, held = dispatching.next_tick_s, site.reserved_for_s, site.robots, site.held_runs
    while True:
        opens = max(next_start - tolerance_s - dispatching.refill_s, site.held_for_s - dispatching.lookahead_s)
        if now <= opens:
            now += (math.floor((opens - now) / dispatching.tick_s) + 1) * dispatching.tick_s
        soonest = max(now + dispatching.travel_s, site.held_for_s)
        arrival = max(soonest, next_start)
        fit = gcra.room(now + dispatching.lookahead_s - arrival + tolerance_s, site.spacing_s)
        room = min(fit, dispatching.longest_run, robots or dispatching.longest_run)
        if site.max_concurrency is not None:
            at_once = site.max_concurrency - sum(_in_flight(run, now) for run in held)
            room = room if at_once > 0 else 0
            starts_s = tuple(gcra.start_s(k, arrival, soonest, site.spacing_s, tolerance_s) for k in range(room))
            held = (
                *(run for run in held if _in_flight(run, now)),
                ReservedRun(at_once=max(at_once, 0), starts_s=starts_s),
            )
        if ahead < room:
            return gcra.start_s(ahead, arrival, soonest, site.spacing_s, tolerance_s)
        if room:
            robots = max(0, robots - room)
            next_start = arrival + gcra.run_length_s(room, site.spacing_s, site.grace_s) + site.interval_s
            ahead -= room
            if not robots and _are_alike(site, dispatching):
                next_start, ahead = next_start + ahead * (site.interval_s + site.grace_s), 0
        now += dispatching.tick_s


def _in_flight(run: ReservedRun, now: float) -> int:
    """Return how many of a run's fetches count for `max_concurrency` at the time `now`."""
    return min(run.at_once, sum(start > now for start in run.starts_s))


def _are_alike(site: SiteTiming, dispatching: Dispatching) -> bool:
    """Return whether each run from now on has one start, and begins when the run before it ends.

    This is so if no second start fits into the look-ahead, and if the tick that refills the site finds it reserved for
    longer than a message travels.
    """
    tolerance_s = gcra.tolerance_s(site.burst, site.interval_s)
    return (
        site.max_concurrency is None
        and site.spacing_s > dispatching.lookahead_s + tolerance_s
        and dispatching.refill_s - dispatching.tick_s >= dispatching.travel_s
    )
