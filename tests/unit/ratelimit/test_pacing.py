"""Run, the holder's side of a reservation, against brute force: runs never break the rate together."""

import math
from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import for_each
from weir.ratelimit.pacing import CONFIRMED_FOR_S, Confirmation, Run

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
    """The arithmetic of ratelimit/sql/reserve.sql: what the database plans for each reservation."""

    interval: int
    burst: int
    grace: int
    next_start: int = 0
    starts: list[int] = field(default_factory=list)
    out_of_time: list[int] = field(default_factory=list)

    def set_behind(self, start: int) -> None:
        """Do what ratelimit/sql/start_out_of_time.sql does with the clock."""
        self.out_of_time.append(self.starts[-1])
        behind = start if self.burst == 1 else max(start, self.next_start)
        self.next_start = max(self.next_start, behind + self.interval)

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
    """One reservation, and what befalls its holder: a stall before each start, one in writing it, one in noting it."""

    idle: int
    closed: int
    stalls: tuple[int, ...]
    writings: tuple[int, ...]  # from the look at the clock on
    notings: tuple[int, ...]


def hold(site: Site, now: int, reservation: Reservation) -> int:
    """Use one run as every holder does; returns the time at which the holder looked at the clock last."""
    planned, run = site.reserve(now, len(reservation.stalls), now + reservation.closed)
    clock = now
    stalls = zip(planned, reservation.stalls, reservation.writings, reservation.notings, strict=True)
    for start_at, stall, writing, noting in stalls:
        clock = max(clock, round(run.ready_at(start_at))) + stall
        if run.may_start(clock):
            site.starts.append(clock + writing)
            clock += writing + noting
            run.started(clock)
            if run.out_of_time_s(clock):
                site.set_behind(clock)
    return clock


# Small and large ones on purpose: stalls below the grace, about an interval, and far beyond the run.
# A strategy is made once: hypothesis takes longer to make one than to draw from it.
ONE_STALL = st.just(0) | st.integers(0, 5 * MS) | st.integers(0, 2_000 * MS)
ONE_NOTING = st.just(0) | st.integers(0, 3 * MS)
ONE_WRITING = st.just(0) | st.just(0) | st.integers(0, 50 * MS) | st.integers(0, 2_000 * MS)


def reservations(*, stalled: bool) -> list[st.SearchStrategy[Reservation]]:
    """Return reservations of one slot and more; with `stalled`, processes stand still between look and write, too."""
    return [
        st.builds(
            Reservation,
            idle=st.just(0) | st.integers(0, 3_000 * MS),
            closed=st.just(0) | st.integers(0, 1_000 * MS),
            stalls=st.tuples(*[ONE_STALL] * count),
            writings=writings,
            notings=st.tuples(*[ONE_NOTING] * count),
        )
        for count in range(1, 9)
        for writings in [st.tuples(*[ONE_WRITING] * count) if stalled else st.just((0,) * count)]
    ]


RESERVATIONS = st.one_of(reservations(stalled=False))
STALLED = st.one_of(reservations(stalled=True))


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


@settings(max_examples=400)
@given(site=sites, held=st.lists(STALLED, min_size=2, max_size=4))
def test_what_breaks_the_rate_is_out_of_time_and_what_follows_keeps_it(site: Site, held: list[Reservation]) -> None:
    """A process may stand still between its look at the clock and its write: it sees so directly after the write."""
    now = 0
    for reservation in held:
        now = hold(site, now + reservation.idle, reservation)
    for earlier, later in breaks_gcra(site.starts, site.interval, site.burst):
        assert any(earlier < start <= later for start in site.out_of_time)


@settings(max_examples=400)
@given(
    site=sites,
    others=st.lists(st.integers(1, 6), max_size=3),
    idle=st.just(0) | st.integers(0, 3_000 * MS),
    late=st.just(0) | st.integers(0, 50 * MS) | st.integers(0, 5_000 * MS),
    next_ones=st.integers(1, 8),
)
@example(site=Site(interval=1_000, burst=1, grace=1), others=[1], idle=1_001, late=0, next_ones=1)
def test_nothing_comes_too_close_behind_a_start_that_was_out_of_its_time(
    site: Site, others: list[int], idle: int, late: int, next_ones: int
) -> None:
    """Others may have reserved behind its run, and used their slots, one of them at the same instant.

    With a burst it counts as one start more.
    """
    _, run = site.reserve(0, 1, 0)
    planned = [start for count in others for start in site.reserve(idle, count, 0)[0]]
    last = max(round(run.use_until) + 1, idle + late)
    site.starts = [*(start for start in planned if start <= last), last]  # those behind it are recalled
    site.set_behind(last)
    site.starts += site.reserve(last, next_ones, 0)[0]
    broken = [
        (earlier, later) for earlier, later in breaks_gcra(site.starts, site.interval, site.burst) if later > last
    ]
    assert [pair for pair in broken if site.burst > 1 or (pair[0] >= last and pair[1] - pair[0] < site.interval)] == []


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


@for_each(
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


@for_each(
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


@for_each(
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


@for_each(
    ("burst", "asked_at", "at", "out_of_time_s"),
    [
        (1, 8.8, 8.5, 0.0),
        (1, 8.8, 8.995, 0.0),  # within the hand-over margin, which is there for that
        (1, 8.8, 9.0, 0.0),
        (1, 8.8, 9.25, 0.25),  # the next run counts on an interval after its end
        (2, 8.8, 9.25, 0.25),  # the starts of the next run's burst may lie before the end of this one
        (1, 8.8, 20.0, 11.0),
        (1, 8.0, 8.5, 0.0),
        (1, 8.0, 8.75, 0.25),  # a recall that nobody has heard of may have taken effect
        (1, 8.0, 20.0, 11.5),  # both: counted from the earlier end
        (1, math.inf, 8.5, 0.0),
        (1, -math.inf, 8.5, math.inf),  # never confirmed
    ],
)
def test_a_start_is_out_of_its_time_after_the_run_or_its_confirmation(
    burst: int, asked_at: float, at: float, out_of_time_s: float
) -> None:
    """From then on, another holder may start at the site; before, only this run does, which keeps its interval."""
    confirmation = Confirmation(asked_at=asked_at)
    use_until = 9.0 + (burst - 1) * 1.0
    run = Run(interval_s=1.0, burst=burst, start_until=9.0, use_until=use_until, confirmation=confirmation)
    run.started(at)  # which changes nothing: it is asked before or after
    assert run.out_of_time_s(at) == out_of_time_s


def test_a_start_that_may_be_made_and_takes_no_longer_than_the_margin_is_in_its_time() -> None:
    """Whatever ends first."""
    for start_until, asked_at in ((9.0, 8.8), (9.0, 8.2), (9.0, 8.5)):
        run = Run(
            interval_s=1.0,
            burst=1,
            start_until=start_until,
            use_until=start_until,
            confirmation=Confirmation(asked_at=asked_at),
        )
        looks = [8.0 + step / 1000 for step in range(1_200)]
        last = max(look for look in looks if run.may_start(look))
        assert run.out_of_time_s(last + 0.009) == 0
        assert run.out_of_time_s(last + 0.012) > 0
