"""Run, the holder's side of a reservation, against brute force: runs never break the rate together."""

import math
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratelimit.pacing import CONFIRMED_FOR_S, Confirmation, Run

# All times are whole microseconds, so that what is compared is exact.
MS = 1000
GOOD = Confirmation(asked_at=math.inf)


def breaks_gcra(starts: list[int], interval: int, burst: int) -> list[tuple[int, int]]:
    """Return the pairs that break GCRA, by its definition: n + burst starts take n intervals at least."""
    numbered = list(enumerate(sorted(starts)))
    return [
        (earlier, later)
        for (i, earlier), (j, later) in combinations(numbered, 2)
        if later - earlier < (j - i - (burst - 1)) * interval
    ]


@dataclass
class Site:
    """The arithmetic of ratelimit/sql/slots/reserve.sql: what the database plans for each reservation."""

    interval: int
    burst: int
    grace: int
    next_start: int = 0
    starts: list[int] = field(default_factory=list)

    def reserve(self, now: int, count: int, closed_until: int) -> tuple[list[int], Run]:
        spacing = self.interval * 101 // 100
        soonest = max(now, closed_until)
        arrival = max(soonest, self.next_start)
        planned = [max(soonest, arrival + k * spacing - (self.burst - 1) * self.interval) for k in range(count)]
        use_until = arrival + (count - 1) * spacing + self.grace
        self.next_start = use_until + self.interval
        return planned, Run(
            interval_s=self.interval,
            burst=self.burst,
            start_until=max(planned[-1] + self.grace, use_until - (self.burst - 1) * self.interval),
            use_until=use_until,
            confirmation=GOOD,
        )


@dataclass(frozen=True)
class Reservation:
    """One reservation and what befalls its holder: a stall before each start, and one in noting it."""

    idle: int
    closed: int
    stalls: tuple[int, ...]
    notings: tuple[int, ...]


def hold(site: Site, now: int, reservation: Reservation) -> int:
    """Use one run as every holder does; returns the time at which the holder looked at the clock last."""
    planned, run = site.reserve(now, len(reservation.stalls), now + reservation.closed)
    clock = now
    for start_at, stall, noting in zip(planned, reservation.stalls, reservation.notings, strict=True):
        clock = max(clock, round(run.ready_at(start_at))) + stall
        if run.may_start(clock):
            site.starts.append(clock)
            clock += noting
            run.started(clock)
    return clock


# Small and large ones on purpose: stalls below the grace, about an interval, and far beyond the run.
# A strategy is made once: hypothesis takes longer to make one than to draw from it.
ONE_STALL = st.just(0) | st.integers(0, 5 * MS) | st.integers(0, 2_000 * MS)
ONE_NOTING = st.just(0) | st.integers(0, 3 * MS)
RESERVATIONS = st.one_of(
    [
        st.builds(
            Reservation,
            idle=st.just(0) | st.integers(0, 3_000 * MS),
            closed=st.just(0) | st.integers(0, 1_000 * MS),
            stalls=st.tuples(*[ONE_STALL] * count),
            notings=st.tuples(*[ONE_NOTING] * count),
        )
        for count in range(1, 9)
    ]
)


sites = st.builds(
    Site,
    interval=st.sampled_from([1 * MS, 20 * MS, 333_334, 1_000 * MS]),
    burst=st.integers(1, 6),
    grace=st.sampled_from([1, 20 * MS, 250 * MS]),
)


@settings(max_examples=400)
@given(site=sites, held=st.lists(RESERVATIONS, min_size=1, max_size=8))
def test_no_stalls_and_no_hand_over_between_runs_ever_break_the_rate(site: Site, held: list[Reservation]) -> None:
    """Whatever holders one after the other suffer, their starts together keep GCRA(interval, burst)."""
    now = 0
    for reservation in held:
        now = hold(site, now + reservation.idle, reservation)
    assert breaks_gcra(site.starts, site.interval, site.burst) == []


@settings(max_examples=400)
@given(site=sites, held=st.lists(RESERVATIONS, min_size=2, max_size=6))
def test_holders_that_reserve_at_the_same_time_keep_the_rate_together(site: Site, held: list[Reservation]) -> None:
    """Runs reserved at one moment, by processes that know nothing of each other, keep the rate too."""
    for reservation in held:
        hold(site, 0, reservation)
    assert breaks_gcra(site.starts, site.interval, site.burst) == []


@given(site=sites, count=st.integers(1, 20))
def test_a_punctual_holder_uses_every_slot_at_its_planned_start(site: Site, count: int) -> None:
    """A holder that is never late never waits and is never refused."""
    planned, run = site.reserve(0, count, 0)
    for start_at in planned:
        assert run.ready_at(start_at) == start_at
        assert run.may_start(start_at)
        run.started(start_at)


def test_a_holder_that_fell_behind_catches_up_within_its_run() -> None:
    """The slots are a little wider than the interval, so that a small delay is gone some slots later."""
    planned, run = Site(interval=100 * MS, burst=1, grace=20 * MS).reserve(0, 10, 0)
    run.started(planned[0] + 5 * MS)
    lateness = []
    for start_at in planned[1:]:
        ready_at = run.ready_at(start_at)
        lateness.append(round(ready_at) - start_at)
        run.started(ready_at)
    assert lateness == [4 * MS, 3 * MS, 2 * MS, 1 * MS, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("burst", "starts", "planned", "ready_at"),
    [
        (1, [], 7.0, 7.0),
        (1, [7.0], 7.5, 8.0),
        (1, [7.0], 9.0, 9.0),
        (2, [7.0], 7.0, 7.0),
        (2, [7.0, 7.0], 7.0, 8.0),
        (3, [7.0, 7.0, 7.0], 7.0, 8.0),
        (3, [7.0, 7.0, 7.0, 8.0], 8.0, 9.0),
        (2, [7.0, 20.0], 20.0, 20.0),
        (2, [7.0, 20.0, 20.0], 20.0, 21.0),
    ],
)
def test_the_next_start_waits_for_the_interval_after_the_burst_is_used_up(
    burst: int, starts: list[float], planned: float, ready_at: float
) -> None:
    """`burst` starts may follow each other at once; then one an interval, counted from the actual starts."""
    run = Run(interval_s=1.0, burst=burst, start_until=100.0, use_until=100.0, confirmation=GOOD)
    for start in starts:
        run.started(start)
    assert run.ready_at(planned) == ready_at


@pytest.mark.parametrize(
    ("starts", "now", "may_start"),
    [
        ([], 8.98, True),
        ([], 8.995, False),  # the hand-over margin
        ([8.0], 8.98, True),
        ([8.5, 8.6], 8.8, False),  # a start now would count until 11.5: half an interval into the next run
    ],
)
def test_a_run_ends_with_its_time(starts: list[float], now: float, may_start: bool) -> None:
    """Nothing starts after `start_until`, nor what would leave the next run less than its interval."""
    run = Run(interval_s=1.0, burst=2, start_until=9.0, use_until=10.0, confirmation=GOOD)
    for start in starts:
        run.started(start)
    assert run.may_start(now) is may_start


@pytest.mark.parametrize(
    ("asked_at", "now", "may_start"),
    [
        (5.0, 5.0, True),
        (5.0, 5.0 + CONFIRMED_FOR_S - 0.02, True),
        (5.0, 5.0 + CONFIRMED_FOR_S - 0.005, False),  # the hand-over margin: what is written now may be written later
        (5.0, 9.0, False),
        (-math.inf, 5.0, False),
    ],
)
def test_nothing_starts_on_an_old_word_of_the_database(asked_at: float, now: float, may_start: bool) -> None:
    """A holder that has not asked lately whether its slots still stand may not use them, until it asks again."""
    confirmation = Confirmation(asked_at=asked_at)
    run = Run(interval_s=1.0, burst=1, start_until=10.0, use_until=10.0, confirmation=confirmation)
    assert run.may_start(now) is may_start
    confirmation.asked_at = now
    assert run.may_start(now)
    assert not run.is_over(now)
