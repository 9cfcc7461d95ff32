"""The forecast's arithmetic against brute force: dispatch played through tick by tick and slot by slot."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from weir.workers.fetches.reports.simulation import Dispatching, ReservedRun, SiteTiming, start_after

DISPATCHING = Dispatching(next_tick_s=0.0, tick_s=1.0, refill_s=1.5, lookahead_s=3.0, travel_s=0.125, longest_run=500)


def parts(least: int, most: int) -> st.SearchStrategy[float]:
    """Return times in whole 1/1024 s, which floats add without an error."""
    return st.integers(least, most).map(lambda number: number / 1024)


def exactly(low: int, high: int) -> st.SearchStrategy[float]:
    """Return such times from `low` to `high` seconds."""
    return parts(low * 1024, high * 1024)


# A strategy is made once: hypothesis takes longer to make one than to draw from it.
sites = st.builds(
    lambda interval_s, wider_by_s, **others: SiteTiming(
        interval_s=interval_s, spacing_s=interval_s + wider_by_s, **others
    ),
    interval_s=parts(1, 5 * 1024),
    wider_by_s=parts(0, 64),
    grace_s=parts(1, 256),
    burst=st.integers(1, 4),
    reserved_for_s=exactly(-5, 5),
    held_for_s=exactly(-5, 10),
    robots=st.integers(0, 3),
    max_concurrency=st.none() | st.integers(1, 5),
    held_runs=st.lists(
        st.builds(ReservedRun, at_once=st.integers(1, 3), starts_s=st.lists(exactly(0, 3)).map(tuple)), max_size=2
    ).map(tuple),
)

ways = st.builds(
    Dispatching,
    next_tick_s=exactly(0, 1),
    tick_s=st.sampled_from([0.5, 1.0, 2.0]),
    refill_s=st.sampled_from([0.75, 1.0, 1.5]),
    lookahead_s=st.sampled_from([1.5, 2.0, 3.5]),
    travel_s=st.sampled_from([0.0, 0.125]),
    longest_run=st.integers(1, 40),
)


@dataclass
class Played:
    """A site with an endless queue, for which each tick of dispatch reserves what it may."""

    site: SiteTiming
    way: Dispatching
    next_start: float = field(init=False)
    starts: list[float] = field(default_factory=list)
    runs: list[tuple[int, list[float]]] = field(init=False)

    def __post_init__(self) -> None:
        self.next_start = self.site.reserved_for_s
        self.runs = [(run.at_once, list(run.starts_s)) for run in self.site.held_runs]

    def tick(self, now: float) -> None:
        """Do what one statement of dispatch does with the site: sql/dispatch.sql, part by part."""
        site, until = self.site, now + self.way.lookahead_s
        lead = site.interval_s * site.burst - site.interval_s
        if not (self.next_start - lead < now + self.way.refill_s and site.held_for_s < until):
            return
        at_once = self.way.longest_run
        if site.max_concurrency is not None:
            at_once = site.max_concurrency - sum(
                min(at_once, len([start for start in starts if start > now])) for at_once, starts in self.runs
            )
        soonest = max(now + self.way.travel_s, site.held_for_s)
        arrival = max(soonest, self.next_start)
        waiting = [len(self.starts) + k < site.robots for k in range(self.way.longest_run)]  # is it a robots.txt?
        run: list[float] = []
        for is_robots in waiting:
            if at_once <= 0 or arrival + len(run) * site.spacing_s > until + lead or is_robots != waiting[0]:
                break
            run.append(max(soonest, arrival + len(run) * site.spacing_s - lead))
        if run:
            use_until = arrival + (len(run) - 1) * site.spacing_s + site.grace_s
            self.next_start = use_until + site.interval_s
            self.starts += run
            self.runs.append((at_once, run))


@given(sites, ways, st.integers(0, 60))
def test_the_start_is_that_of_dispatch_played_through(site: SiteTiming, way: Dispatching, ahead: int) -> None:
    """Whatever the rate, burst, runs, pause, concurrency and look-ahead, to the last bit."""
    played, now = Played(site, way), way.next_tick_s
    while len(played.starts) <= ahead:
        played.tick(now)
        now += way.tick_s
    assert start_after(ahead, site, way) == pytest.approx(played.starts[ahead], rel=0, abs=1e-9)


@given(sites, ways, st.integers(0, 60))
def test_a_fetch_with_more_before_it_starts_later(site: SiteTiming, way: Dispatching, ahead: int) -> None:
    """Never at the same time or sooner, but within a burst, and after a pause that all waited for."""
    first, second = start_after(ahead, site, way), start_after(ahead + 1, site, way)
    assert first < second or (site.burst > 1 and first == second)


@for_each(
    ("rate", "grace_s", "ahead", "at_s"),
    [
        # an idle site: when its message has travelled
        (1 / 3, 0.02, 0, 0.125),
        # 1/10s: one interval, and a grace to hand over, for each one before it
        (10.0, 0.25, 1, 0.125 + 10.25),
        (10.0, 0.25, 100, 0.125 + 1025.0),
        # 1/day for a year
        (86_400.0, 0.25, 365, 0.125 + 365 * 86_400.25),
    ],
)
def test_slow_sites_start_an_interval_and_a_grace_apart(rate: float, grace_s: float, ahead: int, at_s: float) -> None:
    """What can be computed by hand."""
    site = SiteTiming(interval_s=rate, spacing_s=rate * 1.01, grace_s=grace_s, reserved_for_s=-1.0)
    assert start_after(ahead, site, DISPATCHING) == pytest.approx(at_s)


def test_a_fast_site_is_slower_than_its_rate_by_spacing_and_hand_over() -> None:
    """100 starts a second: of an hour, 1 % goes into spacing, and a grace of 20 ms into each run of two seconds."""
    site = SiteTiming(interval_s=0.01, spacing_s=0.0101, grace_s=0.02, reserved_for_s=0.0)
    assert 3_600 * 1.01 * 1.01 < start_after(360_000, site, DISPATCHING) < 3_600 * 1.01 * 1.011


def test_a_million_fetches_are_computed_in_a_moment() -> None:
    """One step for each run: of the slowest sites, whose runs are of one start, all in one."""
    for interval in (0.01, 0.9, 7.0):
        site = SiteTiming(interval_s=interval, spacing_s=interval * 1.01, grace_s=0.02, reserved_for_s=0.0)
        assert start_after(10**6, site, DISPATCHING) > 10**6 * interval
