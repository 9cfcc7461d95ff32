"""Reservations: when they start, how far apart they are, how many, and which are refused."""

import math
from datetime import timedelta
from itertools import pairwise

import pytest
from pytest_django import Settings

from tests.integration.conftest import InThreads, database_now
from tests.integration.ratelimit.conftest import DAY, SITE, site_at, starts, take, wait_s
from tests.waiting import in_time
from weir.ratelimit import clock, models, site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.slots import SlotTooFar

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_idle_site_starts_now() -> None:
    """The first start of a site is neither delayed nor before the call."""
    site_at()
    asked_at = clock.now()
    reservation = take()
    assert asked_at - 0.001 <= reservation.slots[0].start_at <= clock.now() + 0.001
    in_time(reservation.run.may_start(clock.now()), "the start")


def test_reservations_are_an_interval_and_a_grace_apart() -> None:
    """A holder may be late by the grace, and the next start still keeps its interval."""
    site = site_at("1/10s")
    for _ in range(5):
        take()
    gaps = {later - earlier for earlier, later in pairwise(starts())}
    assert min(gaps) > site.interval
    assert max(gaps) == site.interval + site.effective_grace


@pytest.mark.parametrize(
    ("rate", "settings", "grace_ms"),
    [
        ("1000/s", {}, 25),
        ("3/s", {}, 25),
        ("1/s", {}, 25),
        ("1/4s", {}, 100),
        ("1/h", {}, 250),
        ("1/s", {"grace": timedelta(milliseconds=17)}, 17),
    ],
)
def test_a_slot_may_be_used_for_its_grace(rate: str, settings: dict[str, timedelta], grace_ms: int) -> None:
    """The grace is 2.5 % of the interval between 25 and 250 ms, or what the site's row says."""
    site_at(rate, **settings)
    take()
    slot = Slot.objects.get(pk=take().slots[0].id)
    assert slot.use_until - slot.start_time == timedelta(milliseconds=grace_ms)


def test_the_wait_is_counted_on_the_own_monotonic_clock() -> None:
    """`start_at` never lies before the planned start, nor `use_until` after the planned end."""
    site_at("1/10s")
    take()
    reservation = take()
    slot = Slot.objects.get(pk=reservation.slots[0].id)
    before, now, after = clock.now(), database_now(), clock.now()
    starts_in, ends_in = (slot.start_time - now).total_seconds(), (slot.use_until - now).total_seconds()
    assert before + starts_in - 0.001 <= reservation.slots[0].start_at <= after + starts_in + 1
    assert before + ends_in - 1 <= reservation.run.use_until <= after + ends_in + 0.001


def test_a_site_that_was_idle_long_saves_nothing_up() -> None:
    """After an idle time the site starts once immediately, and then at its interval: nothing is made up for."""
    site = site_at("1/10s")
    Site.objects.update(next_start=database_now() - timedelta(days=1))
    assert wait_s(take()) <= 0
    assert wait_s(take()) > site.interval.total_seconds() - 1


def test_a_site_is_created_at_the_default_rate(settings: Settings) -> None:
    """No operator has to create a site before it is used."""
    settings.WEIR_DEFAULT_RATE = "1/7s"
    reservation = slots.reserve("new.example")
    assert Site.objects.get().interval == timedelta(seconds=7)
    assert Site.objects.get().name == "new.example"
    assert (reservation.run.interval_s, reservation.run.burst) == (7.0, 1)
    with pytest.raises(SlotTooFar):
        slots.reserve("new.example", max_wait=5)


def test_a_site_is_created_once_however_many_ask_at_once(in_threads: InThreads) -> None:
    """Simultaneous first reservations share one site and keep its rate."""
    reservations = in_threads(8, lambda _number: slots.reserve("new.example", max_wait=DAY))
    assert len(reservations) == 8
    site = Site.objects.get()
    assert min(later - earlier for earlier, later in pairwise(starts())) >= site.interval


@pytest.mark.parametrize("spelling", ["SITE.example", "site.example.", " Site.Example "])
def test_every_spelling_reserves_in_the_same_site(spelling: str) -> None:
    """A host has one site, however its name is written."""
    site_at()
    take()
    with pytest.raises(SlotTooFar):
        slots.reserve(spelling, max_wait=5)
    assert Site.objects.count() == 1


def test_what_names_no_site_reserves_nothing() -> None:
    """A URL is not a site: each page would have its own."""
    with pytest.raises(InvalidSiteName):
        slots.reserve("https://site.example/page")
    assert not Site.objects.exists()


def test_a_count_is_one_run_for_one_holder() -> None:
    """The starts of one reservation are a little wider than the interval apart and share one end."""
    site = site_at("10/s")
    reservation = take(20)
    rows = list(Slot.objects.order_by("start_time"))
    assert [row.pk for row in rows] == [slot.id for slot in reservation.slots]
    assert {row.run_size for row in rows} == {20}
    assert {row.use_until for row in rows} == {rows[-1].start_time + site.effective_grace}
    gaps = [later - earlier for earlier, later in pairwise(row.start_time for row in rows)]
    assert set(gaps[1:]) == {site.spacing}
    assert site.interval <= gaps[0] <= site.spacing


def test_the_next_run_begins_an_interval_after_the_end_of_the_last() -> None:
    """Until `use_until` the site belongs to the run's holder, and nothing may start in the interval after it."""
    site = site_at("10/s")
    last = Slot.objects.get(pk=take(20).slots[-1].id)
    following = Slot.objects.get(pk=take(3).slots[0].id)
    assert following.start_time == last.use_until + site.interval


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_an_impossible_count_is_refused(count: int) -> None:
    """Only 1 to 10,000 starts can be reserved together."""
    with pytest.raises(ValueError, match="between 1 and 10000"):
        slots.reserve(SITE, count)
    assert not Site.objects.exists()


@pytest.mark.parametrize("max_wait", [-0.001, math.nan, math.inf, -math.inf, 1e300])
def test_an_impossible_wait_is_refused(max_wait: float) -> None:
    """A number that is not a duration, or too long for one, is refused without a question to the database."""
    with pytest.raises(ValueError, match=r"^max_wait must be a number of seconds, .* at most 100 years, but is "):
        slots.reserve(SITE, max_wait=max_wait)
    assert not Site.objects.exists()


def test_the_longest_possible_wait_is_taken() -> None:
    """A hundred years mean any time; a site that is paused until resumed never starts."""
    site_at("1/366d")
    for _ in range(2):
        reservation = slots.reserve(SITE, max_wait=models.FARTHEST_S)
    assert wait_s(reservation) > 365 * DAY
    site_settings.pause(SITE)
    with pytest.raises(SlotTooFar, match="paused"):
        slots.reserve(SITE, max_wait=models.FARTHEST_S)


def test_the_largest_count_is_reserved_in_order() -> None:
    """10,000 starts are reserved together, and come in the order of time."""
    site_at("1000/s")
    reservation = take(10_000)
    planned = dict(Slot.objects.values_list("pk", "start_time"))
    assert len(planned) == 10_000
    in_their_order = [planned[slot.id] for slot in reservation.slots]
    assert in_their_order == sorted(in_their_order)


def test_a_start_too_far_away_is_refused_and_nothing_is_written() -> None:
    """The refusal says when to come again; the site's clock is not changed."""
    site = site_at("1/10s")
    take()
    reserved_until = Site.objects.get().next_start
    with pytest.raises(SlotTooFar) as refusal:
        slots.reserve(SITE, max_wait=5)
    assert refusal.value.site == SITE
    assert 9 < refusal.value.retry_after <= (site.interval + site.effective_grace).total_seconds()
    assert Slot.objects.count() == 1
    assert Site.objects.get().next_start == reserved_until


def test_the_longest_wait_is_that_for_the_first_start() -> None:
    """`max_wait` bounds the first start of a run; its later ones may lie beyond."""
    site_at("1/10s")
    take()
    reservation = slots.reserve(SITE, count=3, max_wait=11)
    assert reservation.slots[-1].start_at > clock.now() + 25


def test_a_run_is_refused_at_once_though_a_single_start_was_given_back() -> None:
    """A given-back start is not enough for a run: a start that is too far away is refused without waiting."""
    site_at("1/2s")
    second = [take() for _ in range(3)][1]
    slots.release(second.slots[0].id)
    asked_at = clock.now()
    with pytest.raises(SlotTooFar):
        slots.reserve(SITE, count=2, max_wait=3)
    in_time(clock.now() - asked_at < 1, "the refusal")


def test_what_is_returned_is_never_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may take slots that were handed back: of reservations that are too late, the last is kept."""
    monkeypatch.setattr(slots.Reservation, "is_too_short", lambda _reservation: True)
    site_settings.set_rate("site.example", "1/s")
    returned = slots.reserve("site.example", max_wait=100)
    assert [slot.id for slot in returned.slots] == list(
        Slot.objects.filter(released_at=None).values_list("pk", flat=True)
    )
    assert Slot.objects.count() <= slots.MOST_TRIES
