"""The real statements in any order, against a model that knows only what they promise.

Hypothesis reserves, gives back, pauses, backs off and changes the rate of one site. The model records what was granted,
and computes no start itself. In the end it checks what the worst allowed holders may have done with it: they are
punctual in one run, as late as possible in the next, and go on until they must know of a recall.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations, count, cycle

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.integration.conftest import database_now
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Slot
from weir.ratelimit.slots import Reservation, SlotTooFar

pytestmark = pytest.mark.django_db(transaction=True)

# All times are whole microseconds of the database's clock, so that what is compared is exact.
US = timedelta(microseconds=1)
SECOND = 1_000_000
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NEVER = 2**62
# Some of these pass while the statements run, some do not.
INTERVALS = {"1000/s": 1_000, "100/s": 10_000, "3/s": 333_334, "1/10s": 10 * SECOND, "1/h": 3_600 * SECOND}
SECONDS = [0.0, 0.003, 0.2, 30.0, 1_000.0]
MAX_WAIT = 1e9
CONFIRMED_FOR = 5_000  # with half a second, every change of the rate would wait for so long

site_numbers = count()


def in_us(moment: datetime) -> int:
    return (moment - LONG_AGO) // US


@dataclass(kw_only=True, eq=False)
class Rate:
    """What holds from one `set_rate` to the next."""

    interval: int
    burst: int

    def least(self, places: int) -> int:
        """Return the least time between two starts that are this many places apart, by GCRA's definition (or <= 0)."""
        return (places - (self.burst - 1)) * self.interval

    def allows(self, starts: list[int]) -> bool:
        """Return whether the starts together keep the rate."""
        numbered = list(enumerate(sorted(starts)))
        return all(later - earlier >= self.least(j - i) for (i, earlier), (j, later) in combinations(numbered, 2))


@dataclass(kw_only=True, eq=False)
class Grant:
    """One reservation as the database recorded it, and what its holder may do with it."""

    reservation: Reservation
    rate: Rate
    planned: dict[int, int]  # the start of each slot that was not given back
    use_until: int
    closed_until: int  # the end of the pause or back-off in which it was reserved
    obeyed_by: int = NEVER  # when its holder knows at the latest that it was recalled

    def punctual(self) -> list[int]:
        """Return the starts of a holder that is as early as it may be: it keeps the rate between its own starts."""
        starts: list[int] = []
        for planned in sorted(self.planned.values()):
            kept = (start + self.rate.least(len(starts) - i) for i, start in enumerate(starts))
            starts.append(max([planned, *kept]))
        return [start for start in starts if start <= self.obeyed_by]

    def late(self) -> list[int]:
        """Return the starts of a holder that makes each as late as it may: the last one at the last moment."""
        starts, end = self.punctual(), min(self.use_until, self.obeyed_by)
        behind = reversed(range(len(starts)))
        return [max(start, end - k * self.rate.interval) for start, k in zip(starts, behind, strict=True)]


class Site(RuleBasedStateMachine):
    """One site, everything that may be done with it, and what was promised to each holder."""

    @initialize(rate=st.sampled_from(sorted(INTERVALS)), burst=st.integers(1, 4))
    def create(self, rate: str, burst: int) -> None:
        self.name = f"site-{next(site_numbers)}.example"
        self.paused_until = self.backed_off_until = 0
        self.rates: list[Rate] = []
        self.grants: list[Grant] = []
        self.grace: timedelta | None = None
        self.set_rate(rate, burst, None)

    @rule(
        rate=st.sampled_from(sorted(INTERVALS)),
        burst=st.integers(1, 4),
        grace=st.none() | st.sampled_from([timedelta(milliseconds=15), timedelta(milliseconds=400)]),
    )
    def set_rate(self, rate: str, burst: int, grace: timedelta | None) -> None:
        new, grace = Rate(interval=INTERVALS[rate], burst=burst), grace or self.grace
        if not self.rates or (new.interval, burst, grace) != (
            self.rates[-1].interval,
            self.rates[-1].burst,
            self.grace,
        ):
            self.recall()
            self.rates.append(new)
        self.grace = grace
        site_settings.set_rate(self.name, rate, burst=burst, grace=grace)

    @rule(seconds=st.sampled_from([*SECONDS, None]))
    def pause(self, seconds: float | None) -> None:
        called = self.recall()
        site_settings.pause(self.name, None if seconds is None else timedelta(seconds=seconds))
        self.paused_until = NEVER if seconds is None else called + int(seconds * SECOND)

    @rule(seconds=st.sampled_from(SECONDS))
    def back_off(self, seconds: float) -> None:
        called = self.recall()
        site_settings.back_off(self.name, seconds)
        self.backed_off_until = max(self.backed_off_until, called + int(seconds * SECOND))

    @rule()
    def resume(self) -> None:
        site_settings.resume(self.name)
        self.paused_until = self.backed_off_until = 0

    @precondition(lambda self: self.paused_until < NEVER)
    @rule(numbers=st.lists(st.sampled_from([1, 1, 1, 2, 6]), min_size=1, max_size=6))
    def reserve(self, numbers: list[int]) -> None:
        for number in numbers:
            self.take(number)

    def take(self, number: int) -> Grant:
        """Reserve, and record what was granted."""
        reservation = slots.reserve(self.name, number, MAX_WAIT)
        rows = Slot.objects.in_bulk([slot.id for slot in reservation.slots])
        assert len(rows) == number
        [use_until] = {row.use_until for row in rows.values()}
        grant = Grant(
            reservation=reservation,
            rate=self.rates[-1],
            planned={pk: in_us(row.start_time) for pk, row in rows.items()},
            use_until=in_us(use_until),
            closed_until=max(self.paused_until, self.backed_off_until),
        )
        assert max(grant.planned.values()) < grant.use_until
        assert grant.rate.allows(list(grant.planned.values())), "without waiting for each other"
        self.grants.append(grant)
        return grant

    @precondition(lambda self: self.paused_until < NEVER)
    @rule()
    def reserve_as_estimated(self) -> None:
        """An estimate is what a reservation then gets, unless that start has passed in between."""
        asked = in_us(database_now())
        estimate = round(slots.estimate(self.name) * SECOND)
        answered = in_us(database_now())
        [start] = self.take(1).planned.values()
        reserved = in_us(database_now())
        assert start >= asked + estimate - 1
        if asked + estimate - 1 > reserved:  # the soonest that the estimated start can be: it has not passed
            assert start <= answered + estimate + 1

    @precondition(lambda self: self.paused_until == NEVER)
    @rule()
    def reserve_in_vain(self) -> None:
        before = Slot.objects.count()
        with pytest.raises(SlotTooFar):
            slots.reserve(self.name, max_wait=MAX_WAIT)
        assert Slot.objects.count() == before

    @precondition(lambda self: self.paused_until < NEVER)
    @rule(
        places=st.sets(st.integers(1, 8), min_size=1),
        whole=st.booleans(),
        unreserve=st.booleans(),
        again=st.integers(0, 3),
    )
    def give_back(self, places: set[int], whole: bool, unreserve: bool, again: int) -> None:
        """Give slots of the last grants back, all or the last of each, and reserve some as estimated."""
        for grant in (self.grants[-place] for place in places if place <= len(self.grants)):
            given_back = list(grant.planned)[0 if whole else -1 :]
            assert slots.release(*given_back) == len(given_back)
            assert slots.release(*given_back) == 0
            for slot in given_back:
                del grant.planned[slot]
            if unreserve:
                slots.unreserve(given_back)
        for _ in range(again):
            self.reserve_as_estimated()

    @rule()
    def confirm(self) -> None:
        """The slots that stand are those that were neither given back nor recalled."""
        for grant in self.grants[-8:]:
            if len(grant.planned) == len(grant.reservation.slots):
                assert slots.confirm(grant.reservation) == (grant.obeyed_by == NEVER)

    def recall(self) -> int:
        """Judge what was granted, and record that it is void from now on; returns the time."""
        self.judge()
        called = in_us(database_now())
        for grant in self.grants:
            grant.obeyed_by = min(grant.obeyed_by, called + CONFIRMED_FOR)
        return called

    def teardown(self) -> None:
        self.judge()

    def judge(self) -> None:
        """Compare what was granted with what was promised."""
        self.judge_pauses()
        self.judge_hand_overs()
        self.judge_rates()

    def judge_pauses(self) -> None:
        """Nothing that was reserved in a pause or back-off starts before its end."""
        for grant in self.grants:
            assert min(grant.planned.values(), default=NEVER) >= grant.closed_until

    def judge_hand_overs(self) -> None:
        """The last possible start of one holder and the first of the next are apart by the next one's rate."""
        for one, other in combinations(self.grants, 2):
            before, after = sorted((one, other), key=lambda grant: grant.use_until)
            if one.rate is not other.rate:  # whatever their order: what was reserved at an old rate comes first
                before, after = one, other
                if after.rate.burst > 1:
                    continue  # the new burst is its own
            if (last := before.late()) and (first := after.punctual()):
                assert first[0] - last[-1] >= after.rate.least(1)

    def judge_rates(self) -> None:
        """While one rate holds, all starts together keep it, whichever of the holders are late."""
        for rate in self.rates:
            held = sorted((g for g in self.grants if g.rate is rate), key=lambda grant: grant.use_until)
            for manners in ([Grant.punctual], [Grant.late], [Grant.punctual, Grant.late], [Grant.late, Grant.punctual]):
                assert rate.allows(
                    [start for grant, starts in zip(held, cycle(manners), strict=False) for start in starts(grant)]
                )


def test_every_order_of_statements_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done with a site, and whatever its holders are allowed to do, its rate and its pauses hold."""
    monkeypatch.setattr(site_settings, "CONFIRMED_FOR_S", CONFIRMED_FOR / SECOND)
    monkeypatch.setattr(slots, "RETRY", 0.005)
    run_state_machine_as_test(
        Site,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
