"""When dispatch will book what: the arithmetic of sql/dispatch.sql, carried on into the future. Pure.

All times are seconds from now. It is right as long as nothing else happens in the lane: nobody else reserves there, no
run is missed, and no rate, pause or back-off changes.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldRun:
    """A run that has been booked: how many of it may be under way at once, and its starts."""

    at_once: int
    starts_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """What dispatch reckons with in a lane."""

    interval_s: float
    spacing_s: float
    grace_s: float
    burst: int = 1
    booked_for_s: float  # until the next free start; below 0: so long free already
    held_for_s: float = -math.inf  # until a pause or back-off ends
    robots: int = 0  # queued robots.txt files, which go first, and alone
    max_concurrency: int | None = None
    held_runs: tuple[HeldRun, ...] = ()  # what counts for max_concurrency


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatching:
    """How dispatch goes about it."""

    next_tick_s: float
    tick_s: float
    lookahead_s: float
    travel_s: float
    longest_run: int


def start_after(ahead: int, lane: Lane, dispatching: Dispatching) -> float:
    """Return when a queued fetch starts that has `ahead` others, robots.txt files among them, before it; all are due.

    Tick by tick, the lane is booked up to the look-ahead, one run a tick; each run is spaced a little wider than the
    interval, and costs a grace when it is handed over. With `max_concurrency`, a fetch is taken to end when it starts:
    how long a site takes is not known, and where that is long, the start is later.
    """
    lead_s = (lane.burst - 1) * lane.interval_s
    now, next_start, robots, held = dispatching.next_tick_s, lane.booked_for_s, lane.robots, lane.held_runs
    while True:
        opens = max(next_start - lead_s, lane.held_for_s) - dispatching.lookahead_s
        if now <= opens:
            now += (math.floor((opens - now) / dispatching.tick_s) + 1) * dispatching.tick_s
        soonest = max(now + dispatching.travel_s, lane.held_for_s)
        arrival = max(soonest, next_start)
        fit, rest_s = divmod(now + dispatching.lookahead_s - arrival + lead_s, lane.spacing_s)
        room = min(int(fit) + 1, dispatching.longest_run, robots or dispatching.longest_run)
        if lane.max_concurrency is not None:
            at_once = lane.max_concurrency - sum(_under_way(run, now) for run in held)
            room = room if at_once > 0 else 0
            starts_s = tuple(max(soonest, arrival + k * lane.spacing_s - lead_s) for k in range(room))
            held = (*(run for run in held if _under_way(run, now)), HeldRun(at_once=max(at_once, 0), starts_s=starts_s))
        if ahead < room:
            return max(soonest, arrival + ahead * lane.spacing_s - lead_s)
        if room:
            robots = max(0, robots - room)
            alike = _alike_ticks(ahead - room, rest_s, lane, dispatching) if room == fit + 1 and not robots else NONE
            ahead -= room + alike.starts
            next_start = arrival + _length_s(1, room, lane) + _length_s(alike.runs, alike.starts, lane)
            now += alike.ticks * dispatching.tick_s
        now += dispatching.tick_s


def _under_way(run: HeldRun, now: float) -> int:
    """Return how many of a run's fetches count for max_concurrency."""
    return min(run.at_once, sum(start > now for start in run.starts_s))


def _length_s(runs: int, starts: int, lane: Lane) -> float:
    """Return for how long so many runs with so many starts hold the lane."""
    return (starts - runs) * lane.spacing_s + runs * (lane.interval_s + lane.grace_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ticks:
    ticks: int
    runs: int
    starts: int


NONE = _Ticks(ticks=0, runs=0, starts=0)


def _alike_ticks(ahead: int, rest_s: float, lane: Lane, dispatching: Dispatching) -> _Ticks:
    """Return what the next ticks book together, up to shortly before the start that is looked for.

    A tick opens a stretch of time, books the starts that fit into it, and leaves a rest shorter than the spacing. The
    next one opens that rest and `gain_s`, the tick without what its run costs. So n ticks book n starts, and one more
    for each spacing that the rest and n gains make up.

    Where a run of one costs more than a tick (and the spacing is more, too), no tick opens more than itself: each run
    is of one, and the ticks between are those until the lane opens again.
    """
    gain_s = dispatching.tick_s - lane.interval_s - lane.grace_s
    # A tick that opens no more than this finds the lane booked farther than a message travels.
    most_s = dispatching.lookahead_s + (lane.burst - 1) * lane.interval_s - dispatching.travel_s
    if lane.max_concurrency is not None:
        return NONE
    if gain_s < 0 and rest_s <= dispatching.tick_s < lane.spacing_s and dispatching.tick_s <= most_s:
        return _Ticks(ticks=0, runs=ahead, starts=ahead)
    opened_s = lane.spacing_s + gain_s
    if gain_s >= 0 and opened_s <= most_s and opened_s / lane.spacing_s + 1 <= dispatching.longest_run:
        ticks = max(0, math.floor((ahead * lane.spacing_s - rest_s) / opened_s) - 1)
        return _Ticks(ticks=ticks, runs=ticks, starts=ticks + math.floor((rest_s + ticks * gain_s) / lane.spacing_s))
    return NONE
