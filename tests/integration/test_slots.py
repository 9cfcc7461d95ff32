"""Slots on a real PostgreSQL: what reservations promise each other, and what gives starts back."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Any

import psycopg
import pytest
from django.conf import LazySettings
from django.db import transaction
from django.db.transaction import TransactionManagementError

from ratelimit import slots
from ratelimit.lanes import InvalidLane
from ratelimit.models import Site, Slot
from ratelimit.rates import InvalidRate
from ratelimit.slots import Reservation, SlotTooFar, UnknownSite
from tests.integration.conftest import InThreads, database_now, waiting_for_nobody

pytestmark = pytest.mark.django_db(transaction=True)

LANE = "site.example"
DAY = 86_400.0
FOREVER = 1e12


def wait_s(reservation: Reservation) -> float:
    return reservation.slots[0].start_at - time.monotonic()


def lane(rate: str = "1/10s", **settings: Any) -> Site:
    slots.set_rate(LANE, rate, **settings)
    return Site.objects.get(name=LANE)


def take(count: int = 1) -> Reservation:
    return slots.reserve(LANE, count, max_wait=DAY)


def starts() -> list[datetime]:
    return list(Slot.objects.order_by("start_time").values_list("start_time", flat=True))


# --- reserve --------------------------------------------------------------------------------------


def test_an_idle_lane_starts_now() -> None:
    """The first start of a lane is neither delayed nor before the call."""
    lane()
    asked_at = time.monotonic()
    reservation = take()
    assert asked_at - 0.001 <= reservation.slots[0].start_at <= time.monotonic() + 0.001
    assert reservation.run.may_start(time.monotonic())


def test_reservations_are_an_interval_and_a_grace_apart() -> None:
    """Whoever holds a start may be as late as the grace, and the next one still keeps its interval."""
    site = lane("1/10s")
    for _ in range(5):
        take()
    gaps = {later - earlier for earlier, later in pairwise(starts())}
    assert min(gaps) > site.interval
    assert max(gaps) == site.interval + site.effective_grace


@pytest.mark.parametrize(
    ("rate", "settings", "grace_ms"),
    [
        ("1000/s", {}, 20),
        ("3/s", {}, 20),
        ("1/s", {}, 25),
        ("1/4s", {}, 100),
        ("1/h", {}, 250),
        ("1/s", {"grace": timedelta(milliseconds=12)}, 12),
    ],
)
def test_a_slot_may_be_used_for_its_grace(rate: str, settings: dict[str, timedelta], grace_ms: int) -> None:
    """The grace is 2.5 % of the interval between 20 and 250 ms, or what the site's row says."""
    lane(rate, **settings)
    take()
    slot = Slot.objects.get(pk=take().slots[0].id)
    assert slot.use_until - slot.start_time == timedelta(milliseconds=grace_ms)


def test_the_wait_is_counted_on_the_own_monotonic_clock() -> None:
    """`start_at` never lies before the planned start, nor `use_until` after the planned end."""
    lane("1/10s")
    take()
    reservation = take()
    slot = Slot.objects.get(pk=reservation.slots[0].id)
    before, now, after = time.monotonic(), database_now(), time.monotonic()
    starts_in, ends_in = (slot.start_time - now).total_seconds(), (slot.use_until - now).total_seconds()
    assert before + starts_in - 0.001 <= reservation.slots[0].start_at <= after + starts_in + 1
    assert before + ends_in - 1 <= reservation.run.use_until <= after + ends_in + 0.001


def test_a_lane_that_was_idle_long_saves_nothing_up() -> None:
    """After an idle time the lane starts once at once, and then at its interval: nothing is made up for."""
    site = lane("1/10s")
    Site.objects.update(next_start=database_now() - timedelta(days=1))
    assert wait_s(take()) <= 0
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_a_lane_is_created_at_the_default_rate(settings: LazySettings) -> None:
    """Nobody has to set up a site before it is used."""
    settings.WEIR_DEFAULT_RATE = "1/7s"
    reservation = slots.reserve("new.example")
    assert Site.objects.get().interval == timedelta(seconds=7)
    assert Site.objects.get().name == "new.example"
    assert (reservation.run.interval_s, reservation.run.burst) == (7.0, 1)
    with pytest.raises(SlotTooFar):
        slots.reserve("new.example", max_wait=5)


def test_a_lane_is_created_once_however_many_ask_at_once(in_threads: InThreads) -> None:
    """Simultaneous first reservations share one lane and keep its rate."""
    reservations = in_threads(8, lambda _number: slots.reserve("new.example", max_wait=DAY))
    assert len(reservations) == 8
    site = Site.objects.get()
    assert min(later - earlier for earlier, later in pairwise(starts())) >= site.interval


@pytest.mark.parametrize("spelling", ["SITE.example", "site.example.", " Site.Example "])
def test_every_spelling_reserves_in_the_same_lane(spelling: str) -> None:
    """A site has one lane, however its name is written."""
    lane()
    take()
    with pytest.raises(SlotTooFar):
        slots.reserve(spelling, max_wait=5)
    assert Site.objects.count() == 1


def test_what_names_no_site_reserves_nothing() -> None:
    """A URL is no lane: it would be one of its own for each page."""
    with pytest.raises(InvalidLane):
        slots.reserve("https://site.example/page")
    assert not Site.objects.exists()


def test_a_count_is_one_run_for_one_holder() -> None:
    """The starts of one reservation are a little wider than the interval apart and share one end."""
    site = lane("10/s")
    reservation = take(20)
    rows = list(Slot.objects.order_by("start_time"))
    assert [row.pk for row in rows] == [slot.id for slot in reservation.slots]
    assert {row.run_size for row in rows} == {20}
    assert {row.use_until for row in rows} == {rows[-1].start_time + site.effective_grace}
    gaps = [later - earlier for earlier, later in pairwise(row.start_time for row in rows)]
    assert set(gaps[1:]) == {site.spacing}
    assert site.interval <= gaps[0] <= site.spacing


def test_the_next_run_begins_an_interval_after_the_end_of_the_last() -> None:
    """Until `use_until` the lane belongs to the run's holder, and then for one more interval to nobody."""
    site = lane("10/s")
    last = Slot.objects.get(pk=take(20).slots[-1].id)
    following = Slot.objects.get(pk=take(3).slots[0].id)
    assert following.start_time == last.use_until + site.interval


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_an_impossible_count_is_refused(count: int) -> None:
    """Only 1 to 10,000 starts can be reserved at once."""
    with pytest.raises(ValueError, match="between 1 and 10000"):
        slots.reserve(LANE, count)
    assert not Site.objects.exists()


def test_the_largest_count_is_reserved_in_order() -> None:
    """10,000 starts are reserved together, and come in the order of time."""
    lane("1000/s")
    reservation = take(10_000)
    planned = dict(Slot.objects.values_list("pk", "start_time"))
    assert len(planned) == 10_000
    in_their_order = [planned[slot.id] for slot in reservation.slots]
    assert in_their_order == sorted(in_their_order)


def test_a_start_too_far_away_is_refused_and_nothing_is_written() -> None:
    """The refusal says when to come again; the lane's clock stands as it stood."""
    site = lane("1/10s")
    take()
    booked_until = Site.objects.get().next_start
    with pytest.raises(SlotTooFar) as refusal:
        slots.reserve(LANE, max_wait=5)
    assert refusal.value.site == LANE
    assert 9 < refusal.value.retry_after <= (site.interval + site.effective_grace).total_seconds()
    assert Slot.objects.count() == 1
    assert Site.objects.get().next_start == booked_until


def test_the_longest_wait_is_that_for_the_first_start() -> None:
    """`max_wait` bounds the first start of a run; its later ones may lie beyond."""
    lane("1/10s")
    take()
    reservation = slots.reserve(LANE, count=3, max_wait=11)
    assert reservation.slots[-1].start_at > time.monotonic() + 25


def test_a_run_is_refused_at_once_though_a_single_start_was_given_back() -> None:
    """A given-back start is no place for a run: what is too far away is too far away, without waiting."""
    lane("1/2s")
    second = [take() for _ in range(3)][1]
    slots.release(second.slots[0].id)
    asked_at = time.monotonic()
    with pytest.raises(SlotTooFar):
        slots.reserve(LANE, count=2, max_wait=3)
    assert time.monotonic() - asked_at < 1


CALLS: dict[str, Callable[[], object]] = {
    "reserve": lambda: slots.reserve(LANE),
    "release": lambda: slots.release(1),
    "finish": lambda: slots.finish(1),
    "estimate": lambda: slots.estimate(LANE),
    "back_off": lambda: slots.back_off(LANE, 1),
    "set_rate": lambda: slots.set_rate(LANE, "1/s"),
    "pause": lambda: slots.pause(LANE),
    "resume": lambda: slots.resume(LANE),
    "purge": lambda: slots.purge(timedelta(0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_runs_inside_a_transaction(name: str) -> None:
    """What is reserved must be committed: inside a transaction every call is a loud error that says so."""
    site = lane()
    with pytest.raises(TransactionManagementError, match="outside transaction"), transaction.atomic():
        CALLS[name]()
    assert not Slot.objects.exists()
    assert Site.objects.get() == site


# --- burst ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("burst", [2, 3, 5])
def test_a_burst_is_gcra(burst: int) -> None:
    """An idle lane lets a burst pass, then one an interval: n + burst starts take n intervals at least."""
    site = lane("1/10s", burst=burst)
    for _ in range(4 * burst):
        take()
    planned = starts()
    for (i, earlier), (j, later) in combinations(enumerate(planned), 2):
        assert later - earlier >= (j - i - (burst - 1)) * site.interval
    assert planned[burst - 1] - planned[0] <= burst * site.effective_grace
    assert planned[burst] - planned[burst - 1] > site.interval / 2


def test_a_run_in_a_lane_with_burst_is_gcra_too() -> None:
    """The starts of one run and those of the next keep the rate together."""
    site = lane("1/10s", burst=3)
    for count in (4, 1, 2, 5):
        take(count)
    for (i, earlier), (j, later) in combinations(enumerate(starts()), 2):
        assert later - earlier >= (j - i - 2) * site.interval


def test_a_burst_is_saved_up_again_while_the_lane_is_idle() -> None:
    """As many starts pass at once as intervals went by idle, and never more than the burst."""
    site = lane("1/10s", burst=3)
    for _ in range(6):
        take()
    Site.objects.update(next_start=database_now() + 1.5 * site.interval)
    Slot.objects.all().delete()
    assert [wait_s(take()) <= 0.5 for _ in range(3)] == [True, False, False]


# --- release and finish ---------------------------------------------------------------------------


def test_a_start_given_back_is_taken_next_and_once() -> None:
    """The next reservation takes the given-back start before any new one; the one after that does not."""
    lane()
    second = [take() for _ in range(3)][1]
    planned = starts()
    assert slots.release(second.slots[0].id) == 1
    taken, following = take(), take()
    assert taken.slots[0].start_at == pytest.approx(second.slots[0].start_at, abs=0.5)
    assert starts()[:3] == planned
    assert following.slots[0].start_at > taken.slots[0].start_at + 15
    assert taken.run.use_until == pytest.approx(second.run.use_until, abs=0.5)


def test_the_earliest_given_back_start_is_taken_first() -> None:
    """In whichever order starts were given back, they are taken in the order of time."""
    lane()
    held = [take() for _ in range(5)]
    for reservation in (held[3], held[1], held[2]):
        slots.release(reservation.slots[0].id)
    taken = [take().slots[0].start_at for _ in range(3)]
    assert taken == pytest.approx([held[i].slots[0].start_at for i in (1, 2, 3)], abs=0.5)


def test_a_start_given_back_is_taken_by_one_of_many(in_threads: InThreads) -> None:
    """Simultaneous reservations never share a given-back start."""
    site = lane()
    held = [take() for _ in range(4)]
    slots.release(*(reservation.slots[0].id for reservation in held[1:3]))
    in_threads(8, lambda _number: take())
    assert Slot.objects.filter(released_at=None).count() == 10
    gaps = [later - earlier for earlier, later in pairwise(starts())]
    assert min(gaps) >= site.interval
    assert max(gaps) < 1.5 * site.interval


def test_a_start_in_the_past_is_not_taken() -> None:
    """A given-back start whose moment has come is history: nobody could use it in time."""
    site = lane()
    reservation = take()
    slots.release(reservation.slots[0].id)
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_a_start_of_a_longer_run_is_not_handed_to_others() -> None:
    """Within a run the holder keeps the interval itself, so that its starts are of use to it alone."""
    lane()
    reservation = take(3)
    following = take()
    assert slots.release(*(slot.id for slot in reservation.slots)) == 3
    assert take().slots[0].start_at > following.slots[0].start_at + 5


def test_a_start_given_back_is_not_enough_for_a_run() -> None:
    """A reservation of several starts takes new ones."""
    lane()
    second = [take() for _ in range(3)][1]
    slots.release(second.slots[0].id)
    assert take(2).slots[0].start_at > second.slots[0].start_at + 15


def test_a_start_farther_away_than_the_caller_waits_stays_given_back() -> None:
    """`max_wait` holds for given-back starts too."""
    lane()
    held = [take() for _ in range(3)]
    slots.release(held[2].slots[0].id)
    with pytest.raises(SlotTooFar) as refusal:
        slots.reserve(LANE, max_wait=15)
    assert 19 < refusal.value.retry_after < 21
    assert Slot.objects.filter(released_at__isnull=False).count() == 1


def test_giving_back_twice_is_giving_back_once() -> None:
    """A second release changes nothing and says so."""
    lane()
    slot_id = take().slots[0].id
    assert [slots.release(slot_id), slots.release(slot_id)] == [1, 0]


def test_giving_back_twice_takes_nothing_from_who_took_the_start() -> None:
    """A start that is somebody else's by now is not given back by its former holder: it would have two."""
    site = lane()
    former = [take() for _ in range(3)][1]
    slots.release(former.slots[0].id)
    take()
    assert slots.release(former.slots[0].id) == 0
    take()
    held = list(Slot.objects.filter(released_at=None).order_by("start_time").values_list("start_time", flat=True))
    assert len(held) == 4
    assert min(later - earlier for earlier, later in pairwise(held)) >= site.interval


def test_a_used_start_is_not_given_back() -> None:
    """Who used a slot and gives it back all the same, gives back nothing."""
    lane()
    take()
    slot_id = take().slots[0].id
    slots.finish(slot_id)
    assert slots.release(slot_id) == 0
    assert Slot.objects.get(pk=slot_id).released_at is None


def test_a_given_back_start_is_not_finished() -> None:
    """A slot ends once: finishing it after giving it back changes nothing, and may be done twice."""
    lane()
    first, second = take().slots[0].id, take().slots[0].id
    slots.release(first)
    for _ in range(2):
        slots.finish(first, second)
    finished = dict(Slot.objects.values_list("pk", "finished_at"))
    assert finished[first] is None
    assert finished[second] is not None


def test_many_are_given_back_in_one_call_and_unknown_ones_are_ignored() -> None:
    """The answer is how many of them were open."""
    lane("1000/s")
    ids = [slot.id for slot in take(50).slots]
    slots.finish(*ids[:10])
    assert slots.release(*ids, ids[-1] + 1_000) == 40
    assert slots.release() == 0


# --- estimate -------------------------------------------------------------------------------------


def booked() -> None:
    for _ in range(3):
        take()


def given_back() -> None:
    slots.release([take() for _ in range(4)][2].slots[0].id)


def run_given_back() -> None:
    slots.release(*(slot.id for slot in take(3).slots))


def paused() -> None:
    booked()
    slots.pause(LANE, timedelta(minutes=10))


def given_back_and_paused() -> None:
    given_back()
    slots.pause(LANE, timedelta(minutes=10))


def backed_off() -> None:
    given_back()
    slots.back_off(LANE, 25)


SITUATIONS = {
    "idle": lambda: None,
    "booked": booked,
    "given back": given_back,
    "a run given back": run_given_back,
    "paused": paused,
    "given back and paused": given_back_and_paused,
    "backed off": backed_off,
}


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_estimate_is_what_a_reservation_then_gets(situation: str, burst: int) -> None:
    """Whatever the state of the lane, the estimate is the wait of a reservation now, and writes nothing."""
    lane(burst=burst)
    SITUATIONS[situation]()
    before = Slot.objects.count(), Site.objects.get().next_start
    estimated_at = time.monotonic() + slots.estimate(LANE)
    assert (Slot.objects.count(), Site.objects.get().next_start) == before
    assert take().slots[0].start_at == pytest.approx(estimated_at, abs=0.25)


def test_an_unknown_lane_is_estimated_idle_and_not_created() -> None:
    """A lane that does not exist would start at once."""
    assert slots.estimate("nobody.example") == 0
    assert not Site.objects.exists()


def test_a_paused_lane_is_estimated_beyond_every_wait() -> None:
    """A lane that is paused until resumed has no start in sight."""
    lane()
    slots.pause(LANE)
    assert slots.estimate(LANE) > 1e10
    with pytest.raises(SlotTooFar):
        take()


# --- back_off -------------------------------------------------------------------------------------


def backed_off_for() -> float:
    until = Site.objects.get(name=LANE).backed_off_until
    assert until is not None
    return (until - database_now()).total_seconds()


@pytest.mark.parametrize("seconds", [(60, 5), (5, 60), (60, 60)])
def test_the_longest_back_off_counts(seconds: tuple[int, int]) -> None:
    """Calls overlap: a shorter one never shortens, and they never add up."""
    lane()
    for each in seconds:
        slots.back_off(LANE, each)
    assert 59 < backed_off_for() <= 60
    assert 59 < wait_s(take()) <= 60


def test_simultaneous_back_offs_count_once(in_threads: InThreads) -> None:
    """N answers of 429 at one moment are one back-off."""
    lane()
    in_threads(8, lambda _number: slots.back_off(LANE, 60))
    assert 55 < backed_off_for() <= 60


def test_a_back_off_keeps_given_back_starts_from_being_taken() -> None:
    """Starts within the back-off are void, also for those who come after."""
    lane()
    held = [take() for _ in range(3)]
    slots.release(held[1].slots[0].id)
    slots.back_off(LANE, 60)
    assert wait_s(take()) > 55


def test_a_back_off_needs_a_lane_and_a_time() -> None:
    """An unknown lane and a negative time are refused."""
    with pytest.raises(UnknownSite, match=r"manage\.py sites"):
        slots.back_off("nobody.example", 5)
    lane()
    with pytest.raises(ValueError, match="negative"):
        slots.back_off(LANE, -1)
    assert Site.objects.get().backed_off_until is None


# --- pause and resume -----------------------------------------------------------------------------


def test_a_pause_starts_nothing_until_its_end() -> None:
    """What is reserved during a pause starts after it."""
    lane()
    slots.pause(LANE, timedelta(minutes=10))
    assert 599 < wait_s(take()) <= 600


def test_a_pause_replaces_the_one_before() -> None:
    """A shorter pause shortens: the operator's last word counts."""
    lane()
    slots.pause(LANE)
    slots.pause(LANE, timedelta(minutes=10))
    assert slots.estimate(LANE) <= 600


def test_resume_ends_a_pause_and_a_back_off() -> None:
    """A resumed lane starts at once if it is free."""
    lane()
    slots.pause(LANE)
    slots.back_off(LANE, 600)
    slots.resume(LANE)
    assert wait_s(take()) <= 0


def test_resume_forgets_no_start() -> None:
    """The clock of the lane outlives pause and resume."""
    site = lane()
    take()
    slots.pause(LANE)
    slots.resume(LANE)
    assert wait_s(take()) > site.interval.total_seconds() - 1


@pytest.mark.parametrize("call", [slots.pause, slots.resume])
def test_an_unknown_lane_is_neither_paused_nor_resumed(call: Callable[[str], None]) -> None:
    """A slip of the pen is said, and creates no lane."""
    with pytest.raises(UnknownSite, match=r"nobody\.example"):
        call("nobody.example")
    assert not Site.objects.exists()


# --- set_rate -------------------------------------------------------------------------------------


def test_a_lane_that_was_slow_is_not_bound_by_its_old_interval() -> None:
    """After the change the next start comes at the new distance from the last one."""
    lane("1/h")
    take()
    lane("10/s")
    assert wait_s(take()) < 0.5


def test_a_lane_that_was_fast_is_bound_at_once() -> None:
    """The first start after the change keeps the new interval from the last start before it already."""
    lane("100/s")
    take()
    lane("1/h")
    assert 3590 < wait_s(take()) <= 3601


def test_a_lane_that_was_fast_and_idle_keeps_the_new_interval_from_its_last_start() -> None:
    """The last start counts at the new rate, and the idle time since then counts for it."""
    lane("100/s")
    take()
    Site.objects.update(next_start=database_now() - timedelta(minutes=20))
    lane("1/h")
    assert 2300 < wait_s(take()) < 2500


def test_starts_that_are_booked_already_stay_and_are_never_overtaken() -> None:
    """A new rate moves no start that somebody holds."""
    lane("1/10s")
    held = [take() for _ in range(3)]
    planned = starts()
    lane("100/s")
    assert take().slots[0].start_at > held[-1].slots[0].start_at
    assert starts()[:3] == planned


def test_what_is_not_named_stays_as_it_is() -> None:
    """A change of rate keeps burst, grace, concurrency and what the lane covers, unless they are named."""
    every = {"burst": 4, "max_concurrency": 7, "grace": timedelta(milliseconds=33), "covers_subdomains": True}
    slots.set_rate(LANE, "1/s", burst=4, max_concurrency=7, grace=timedelta(milliseconds=33), covers_subdomains=True)
    slots.set_rate(LANE, "2/s")
    assert Site.objects.values("interval", *every).get() == {"interval": timedelta(seconds=0.5), **every}
    slots.set_rate(LANE, "2/s", burst=1, covers_subdomains=False)
    assert Site.objects.values(*every).get() == {**every, "burst": 1, "covers_subdomains": False}


def test_a_new_lane_starts_with_the_defaults() -> None:
    """A lane that an operator creates has burst 1, no limit of concurrency, and starts at once."""
    site = lane("3/s")
    assert (site.burst, site.max_concurrency, site.grace, site.covers_subdomains) == (1, None, None, False)
    assert wait_s(take()) <= 0


@pytest.mark.parametrize("settings", [{"burst": 0}, {"burst": -1}, {"max_concurrency": 0}])
def test_an_impossible_setting_is_refused(settings: dict[str, int]) -> None:
    """The refusal names the setting, and the lane stays as it was."""
    lane("1/s", burst=2)
    with pytest.raises(ValueError, match=next(iter(settings))):
        lane("5/s", **settings)
    assert Site.objects.values_list("interval", "burst").get() == (timedelta(seconds=1), 2)


def test_an_unreadable_rate_is_refused() -> None:
    """Nonsense creates no lane."""
    with pytest.raises(InvalidRate):
        lane("often")
    assert not Site.objects.exists()


# --- purge ----------------------------------------------------------------------------------------


def grown_old(count: int, age: timedelta) -> None:
    """Have `count` slots whose start lies that far back."""
    start = database_now() - age
    site = Site.objects.get()
    Slot.objects.bulk_create([Slot(site=site, start_time=start, use_until=start) for _ in range(count)])


def test_only_slots_that_passed_long_enough_ago_are_purged() -> None:
    """Finished, given back or forgotten: what is older goes, what is younger or to come stays."""
    lane()
    grown_old(5, timedelta(hours=2))
    grown_old(3, timedelta(minutes=30))
    slots.finish(Slot.objects.earliest("pk").pk)
    held = [take(), take()]
    assert slots.purge(timedelta(hours=1)) == 5
    assert Slot.objects.count() == 3 + len(held)
    assert slots.purge(timedelta(hours=1)) == 0


def test_purging_everything_does_not_forget_the_last_start() -> None:
    """The clock is in the lane's row: without any slot the interval still holds."""
    site = lane()
    take()
    assert slots.purge(timedelta(0)) == 1
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_purge_goes_on_until_a_batch_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short batches, as many as it takes, and the sum of them."""
    monkeypatch.setattr(slots, "PURGE_BATCH", 10)
    lane()
    grown_old(35, timedelta(hours=2))
    assert slots.purge(timedelta(hours=1)) == 35
    assert not Slot.objects.exists()


def test_purge_leaves_what_others_hold(other_connection: psycopg.Connection[Any]) -> None:
    """A locked slot is left for the next time, and never waited for."""
    lane()
    grown_old(5, timedelta(hours=2))
    other_connection.execute("SELECT id FROM ratelimit_slot ORDER BY id LIMIT 2 FOR UPDATE")
    with waiting_for_nobody():
        assert slots.purge(timedelta(hours=1)) == 3
    other_connection.rollback()
    assert slots.purge(timedelta(hours=1)) == 2


def test_a_given_back_start_of_a_faster_time_is_not_taken() -> None:
    """A lane that was slowed down hands out no start that was reserved at its old rate."""
    lane("10/s")
    reserved = [take() for _ in range(12)]
    slots.set_rate(LANE, "2/s")
    for reservation in reserved[2:]:
        slots.release(reservation.slots[0].id)
    begin = sorted(take().slots[0].start_at for _ in range(4))
    assert min(later - earlier for earlier, later in pairwise(begin)) >= 0.49
