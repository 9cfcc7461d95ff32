"""A slot that is given back is taken by one other holder, in time; a used slot cannot be given back."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.integration.conftest import InThreads
from tests.integration.ratelimit.conftest import DAY, SITE, site_at, starts, take, wait_s
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.slots import ReservedSlot, SlotTooFar

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_start_given_back_is_taken_next_and_once() -> None:
    """The next reservation takes the given-back start before any new one; the one after that does not."""
    site_at()
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
    site_at()
    held = [take() for _ in range(5)]
    for reservation in (held[3], held[1], held[2]):
        slots.release(reservation.slots[0].id)
    taken = [take().slots[0].start_at for _ in range(3)]
    assert taken == pytest.approx([held[i].slots[0].start_at for i in (1, 2, 3)], abs=0.5)


def test_a_start_given_back_is_taken_by_one_of_many(in_threads: InThreads) -> None:
    """Simultaneous reservations never share a given-back start."""
    site = site_at()
    held = [take() for _ in range(4)]
    slots.release(*(reservation.slots[0].id for reservation in held[1:3]))
    in_threads(8, lambda _number: take())
    assert Slot.objects.filter(released_at=None).count() == 10
    gaps = [later - earlier for earlier, later in pairwise(starts())]
    assert min(gaps) >= site.interval
    assert max(gaps) < 1.5 * site.interval


def test_a_start_in_the_past_is_not_taken() -> None:
    """A given-back start whose time has come is void: no process could use it in time."""
    site = site_at()
    reservation = take()
    slots.release(reservation.slots[0].id)
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_a_start_of_a_longer_run_is_not_handed_to_others() -> None:
    """Within a run the holder keeps the interval itself, so only this holder can use its starts."""
    site_at()
    reservation = take(3)
    following = take()
    assert slots.release(*(slot.id for slot in reservation.slots)) == 3
    assert take().slots[0].start_at > following.slots[0].start_at + 5


def test_a_start_given_back_is_not_enough_for_a_run() -> None:
    """A reservation of several starts takes new ones."""
    site_at()
    second = [take() for _ in range(3)][1]
    slots.release(second.slots[0].id)
    assert take(2).slots[0].start_at > second.slots[0].start_at + 15


def test_a_start_farther_away_than_the_caller_waits_stays_given_back() -> None:
    """`max_wait` holds for given-back starts too."""
    site_at()
    held = [take() for _ in range(3)]
    slots.release(held[2].slots[0].id)
    with pytest.raises(SlotTooFar) as refusal:
        slots.reserve(SITE, max_wait=15)
    assert 19 < refusal.value.retry_after < 21
    assert Slot.objects.filter(released_at__isnull=False).count() == 1


def test_giving_back_twice_is_giving_back_once() -> None:
    """A second release changes nothing and says so."""
    site_at()
    slot_id = take().slots[0].id
    assert [slots.release(slot_id), slots.release(slot_id)] == [1, 0]


def test_giving_back_twice_takes_nothing_from_the_new_holder() -> None:
    """The former holder cannot give back a start that another process has taken: it would then have two holders."""
    site = site_at()
    former = [take() for _ in range(3)][1]
    slots.release(former.slots[0].id)
    take()
    assert slots.release(former.slots[0].id) == 0
    take()
    held = list(Slot.objects.filter(released_at=None).order_by("start_time").values_list("start_time", flat=True))
    assert len(held) == 4
    assert min(later - earlier for earlier, later in pairwise(held)) >= site.interval


def test_a_used_start_is_not_given_back() -> None:
    """A holder that used a slot, and then gives it back, gives back nothing."""
    site_at()
    take()
    slot_id = take().slots[0].id
    slots.finish(slot_id)
    assert slots.release(slot_id) == 0
    assert Slot.objects.get(pk=slot_id).released_at is None


def test_a_given_back_start_is_not_finished() -> None:
    """A slot ends once: finishing it after giving it back changes nothing, and may be done twice."""
    site_at()
    first, second = take().slots[0].id, take().slots[0].id
    slots.release(first)
    for _ in range(2):
        slots.finish(first, second)
    finished = dict(Slot.objects.values_list("pk", "finished_at"))
    assert finished[first] is None
    assert finished[second] is not None


def test_many_are_given_back_in_one_call_and_unknown_ones_are_ignored() -> None:
    """The answer is how many of them were open."""
    site_at("1000/s")
    ids = [slot.id for slot in take(50).slots]
    slots.finish(*ids[:10])
    assert slots.release(*ids, ids[-1] + 1_000) == 40
    assert slots.release() == 0


def test_a_given_back_start_of_a_faster_time_is_not_taken() -> None:
    """A site that was slowed down hands out no start that was reserved at its old rate."""
    site_at("10/s")
    reserved = [take() for _ in range(12)]
    site_settings.set_rate(SITE, "2/s")
    for reservation in reserved[2:]:
        slots.release(reservation.slots[0].id)
    begin = sorted(take().slots[0].start_at for _ in range(4))
    assert min(later - earlier for earlier, later in pairwise(begin)) >= 0.49


def test_a_site_forgets_a_start_that_was_missed() -> None:
    """A slot that was reserved alone and came too late costs the site a minute, however long its interval is."""
    site_at("1/d")
    missed = take().slots[0].id  # starts immediately: has passed when it is given back
    slots.release(missed)
    slots.unreserve([missed])
    assert 50 < slots.estimate(SITE) <= slots.RETRY
    take()
    slots.unreserve([missed])  # twice
    assert slots.estimate(SITE) > DAY


def test_a_forgotten_start_that_lies_in_the_future_is_not_taken() -> None:
    """Otherwise a process could take it as a given-back one, in addition to the next start."""
    site_at("1/10m")
    take()
    forgotten = take().slots[0].id
    slots.release(forgotten)
    slots.unreserve([forgotten])
    assert not Slot.objects.filter(pk=forgotten).exists()
    again, after = (Slot.objects.get(pk=take().slots[0].id).start_time for _ in range(2))
    assert after - again >= timedelta(minutes=10)


def test_a_site_that_is_not_slow_waits_its_interval() -> None:
    """While no process can use slots, sites are not reserved more often than their rate allows."""
    site_at("1/m")
    missed = take().slots[0].id
    slots.release(missed)
    reserved_until = Site.objects.get().next_start
    slots.unreserve([missed])
    assert Site.objects.get().next_start == reserved_until


NOT_FORGOTTEN: dict[str, Callable[[ReservedSlot], object]] = {
    "it is still held": lambda _: None,
    "it was used": lambda slot: slots.finish(slot.id),
    "another process has reserved after it": lambda slot: (take(), slots.release(slot.id)),
    "another process has taken it": lambda slot: (slots.release(slot.id), take()),
    "it was recalled": lambda slot: (slots.release(slot.id), site_settings.back_off(SITE, 0.001)),
}


@pytest.mark.parametrize("because", NOT_FORGOTTEN)
def test_a_site_does_not_forget_a_start(because: str) -> None:
    """The start may still be made, or was made, or another start's time depends on it."""
    site_at("1/10m")
    take()
    slot = take().slots[0]
    NOT_FORGOTTEN[because](slot)
    reserved_until = Site.objects.get().next_start
    slots.unreserve([slot.id])
    assert Site.objects.get().next_start == reserved_until


def test_the_starts_of_a_run_are_not_forgotten() -> None:
    """Other slots of the run may have been used, which is not checked."""
    site_at("1/10m")
    ids = [slot.id for count in (1, 2) for slot in take(count).slots]
    reserved_until = Site.objects.get().next_start
    slots.release(*ids)
    slots.unreserve(ids)
    assert Site.objects.get().next_start == reserved_until


def test_a_start_that_is_handed_back_is_granted_once() -> None:
    """The clock is set back, so the slot itself must not be taken, too: both would start at about the same time."""
    site = site_at("1/10s")
    take()
    second = take()
    slots.hand_back([second.slots[0].id], max(0.0, second.arrival_at - clock.now()))
    third, fourth = take(), take()
    assert fourth.slots[0].start_at - third.slots[0].start_at >= site.interval.total_seconds()
