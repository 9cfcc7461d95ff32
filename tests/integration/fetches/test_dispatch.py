"""Dispatch reserves at many sites together: whole runs, in order, within the look-ahead, without waiting for locks."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.resources import files
from itertools import pairwise
from typing import Any

import psycopg
import pytest
import redis
from django.db import connection
from pytest_django import Settings

from tests.integration.conftest import Eventually, InThreads, Message, database_now, waiting_for_nobody
from tests.waiting import in_time
from weir.ratelimit import site_settings, slots
from weir.ratelimit.models import Site, Slot
from weir.workers import broker_link, task_names
from weir.workers.fetches import dispatch as dispatching
from weir.workers.fetches import strays
from weir.workers.fetches.dispatch import APART, SLOTS_A_MESSAGE, dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.processes.models import Process
from weir.workers.schedule import TRAVEL

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]

SITE = "site.example"
URL = "https://site.example/"
LOOKAHEAD = 2.0


@pytest.fixture(autouse=True)
def _lookahead(settings: Settings) -> None:
    settings.WEIR_LOOKAHEAD = LOOKAHEAD


def runs_sent(messages: list[Message]) -> list[list[int]]:
    """Return the fetches whose slots were sent, message by message."""
    fetch_of = dict(Fetch.objects.filter(slot_id__isnull=False).values_list("slot_id", "pk"))
    sent = [arguments[0] for task, arguments in messages if task == task_names.FETCH_BATCH]
    return [[fetch_of[slot_id] for slot_id in slot_ids] for slot_ids in sent]


def held() -> list[Fetch]:
    """Return the reserved fetches, in the order of their slots."""
    return list(Fetch.objects.filter(state=FetchState.RESERVED).order_by("slot_id"))


# --- far from PostgreSQL ---


def test_round_trips_of_fetchers_are_added_to_the_grace(messages: list[Message]) -> None:  # noqa: ARG001
    """A fetcher has its whole grace, however far away it is, and the time to claim; the longest report counts."""
    site_settings.set_rate(SITE, "10/s", grace=timedelta(milliseconds=30))
    for name, round_trip_s in (("near", 0.001), ("far", 0.102)):
        Process.objects.create(kind="fetcher", name=name, pid=1, round_trip_s=round_trip_s)
    request_fetches([URL] * 5)
    began_at = database_now()
    assert dispatch() == 5
    planned = list(Slot.objects.order_by("pk"))
    assert {slot.use_until for slot in planned} == {planned[-1].start_time + timedelta(milliseconds=130)}
    assert Site.objects.get().next_start == planned[0].use_until + timedelta(milliseconds=100)
    assert planned[0].start_time > began_at + timedelta(seconds=TRAVEL + 3 * 0.102)


@pytest.mark.parametrize(("round_trip_s", "seconds"), [(0.0, LOOKAHEAD), (0.1, 5.1), (1.0, 14.0)])
def test_far_away_sites_are_reserved_further_ahead(round_trip_s: float, seconds: float) -> None:
    """So runs last longer, and the longer grace stays a small part of them; by five seconds at most."""
    site_settings.set_rate(SITE, "10/s")
    Process.objects.create(kind="fetcher", name="far", pid=1, round_trip_s=round_trip_s)
    request_fetches([URL] * 200)
    dispatch()
    last_start = Slot.objects.latest("start_time").start_time
    ahead_s = (last_start - database_now()).total_seconds()
    in_time(ahead_s == pytest.approx(seconds, abs=0.3), f"dispatch, for a start {ahead_s:.2f} s ahead")


# --- one site -----------------------------------------------------------------------------------------------------


def test_queued_fetches_get_slots_and_are_sent(messages: list[Message]) -> None:
    """A reserved fetch has its own slot, a lease that outlasts it, and is in a message."""
    site_settings.set_rate(SITE, "10/s")
    fetches = request_fetches([URL] * 5)
    assert dispatch() == 5
    planned = {slot.pk: slot for slot in Slot.objects.all()}
    assert len({fetch.slot_id for fetch in held()}) == len(planned) == 5
    for fetch in held():
        assert fetch.lease_until is not None
        assert fetch.lease_until > planned[fetch.slot_id or 0].use_until
    assert runs_sent(messages) == [[fetch.pk for fetch in fetches]]


def test_the_slots_of_one_dispatch_are_one_run() -> None:
    """They share their end, are wider than the interval apart, and the site is reserved an interval beyond."""
    site_settings.set_rate(SITE, "10/s")
    request_fetches([URL] * 8)
    dispatch()
    site, run = Site.objects.get(), list(Slot.objects.order_by("start_time"))
    assert {slot.run_size for slot in run} == {8}
    assert {slot.use_until for slot in run} == {run[-1].start_time + site.effective_grace}
    assert {later.start_time - earlier.start_time for earlier, later in pairwise(run)} == {site.spacing}
    assert site.next_start == run[-1].use_until + site.interval


def test_dispatch_and_reservations_share_the_clock_of_the_site() -> None:
    """Reservations by `throttle` and by dispatch keep the interval between them."""
    site_settings.set_rate(SITE, "10/s")
    slots.reserve(SITE)
    request_fetches([URL] * 3)
    dispatch()
    slots.reserve(SITE)
    site, run = Site.objects.get(), list(Slot.objects.order_by("start_time"))
    assert [slot.run_size for slot in run] == [1, 3, 3, 3, 1]
    assert run[1].start_time - run[0].use_until >= site.interval
    assert run[4].start_time - run[3].use_until >= site.interval


def test_the_best_go_first(messages: list[Message]) -> None:
    """Priority, then age, decides which fetches are sent and in which order; the rest stays queued."""
    site_settings.set_rate(SITE, "2/s")
    ids = [request_fetch(URL, priority=priority).pk for priority in (0, 5, 0, 9, 5, 0, 0, 0)]
    dispatch()
    assert runs_sent(messages) == [[ids[3], ids[1], ids[4], ids[0]]]
    assert [fetch.pk for fetch in held()] == [ids[3], ids[1], ids[4], ids[0]]
    assert Fetch.objects.filter(state=FetchState.QUEUED).count() == 4


def test_what_is_not_due_yet_waits() -> None:
    """A retry that waits for its back-off is not sent before it, whatever its priority."""
    site_settings.set_rate(SITE, "10/s")
    later = request_fetch(URL, priority=9, not_before=database_now() + timedelta(minutes=5))
    now = request_fetch(URL)
    dispatch()
    assert [fetch.pk for fetch in held()] == [now.pk]
    assert Fetch.objects.get(pk=later.pk).state == FetchState.QUEUED
    site = Site.objects.get()
    assert (site.has_backlog, site.due_at) == (False, later.not_before)


@pytest.mark.parametrize(("rate", "starts"), [("1/s", 2), ("10/s", 19), ("1/10s", 1), ("100/s", 189)])
def test_a_site_is_reserved_up_to_the_lookahead(rate: str, starts: int) -> None:
    """As many slots are given as start within the look-ahead, and at least one."""
    site_settings.set_rate(SITE, rate)
    request_fetches([URL] * 300)
    before = database_now()
    assert dispatch() == starts
    latest = Slot.objects.latest("start_time").start_time
    assert latest <= database_now() + timedelta(seconds=LOOKAHEAD)
    assert latest + Site.objects.get().spacing > before + timedelta(seconds=LOOKAHEAD)


def test_a_site_that_is_reserved_so_far_ahead_gets_nothing_more() -> None:
    """A second dispatch adds nothing until time has passed, however often it runs."""
    site_settings.set_rate(SITE, "1/10s")
    request_fetches([URL] * 100)
    assert [dispatch() for _ in range(4)] == [1, 0, 0, 0]
    Site.objects.update(next_start=database_now() + timedelta(seconds=1))
    assert dispatch() == 1


def test_a_run_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A very fast site is reserved in runs of a bounded size."""
    site_settings.set_rate(SITE, "1000/s")
    request_fetches([URL] * 50)
    monkeypatch.setattr(dispatching, "LONGEST_RUN", 7)
    assert [dispatch(), dispatch()] == [7, 7]


def test_a_burst_is_dispatched_at_once() -> None:
    """GCRA holds for dispatch too: a burst starts now, the rest at its interval."""
    site_settings.set_rate(SITE, "1/s", burst=5)
    request_fetches([URL] * 20)
    dispatch()
    run = [slot.start_time for slot in Slot.objects.order_by("start_time")]
    assert run[4] - run[0] < timedelta(seconds=0.1)
    assert run[5] - run[4] > timedelta(seconds=0.9)
    assert all(run[i + 5] - run[i] >= timedelta(seconds=1) for i in range(len(run) - 5))


# --- limits -------------------------------------------------------------------------------------------------------


def end(*fetch_ids: int) -> None:
    """End these fetches."""
    Fetch.objects.filter(pk__in=fetch_ids).update(
        state=FetchState.DONE, status_code=200, finished_at=database_now(), lease_until=None
    )


def test_runs_together_have_no_more_in_flight_than_the_site_allows() -> None:
    """A run may have in flight what earlier runs leave over; as these end, there is room for more."""
    site_settings.set_rate(SITE, "100/s", max_concurrency=3)
    ids = [fetch.pk for fetch in request_fetches([URL] * 500)]

    def reserved_now() -> int:
        Site.objects.update(next_start=database_now())
        return dispatch()

    first = reserved_now()
    assert first > 100
    assert set(Slot.objects.values_list("at_once", flat=True)) == {3}
    assert reserved_now() == 0, "the first run may use it all"
    end(*ids[: first - 2])
    assert reserved_now() > 100, "two are left of it"
    assert set(Slot.objects.filter(pk__in=[fetch.slot_id for fetch in held()[2:]]).values_list("at_once")) == {(1,)}
    assert reserved_now() == 0
    end(*ids[first - 2 : first])
    assert reserved_now() > 0
    assert Slot.objects.latest("pk").at_once == 2


def test_a_concurrency_that_was_lowered_below_what_is_held_gives_nothing() -> None:
    """Less room than none is none."""
    site_settings.set_rate(SITE, "100/s")
    request_fetches([URL] * 300)
    dispatch()
    site_settings.set_rate(SITE, "100/s", max_concurrency=1)
    Site.objects.update(next_start=database_now())
    assert dispatch() == 0
    assert Site.objects.get().has_backlog


def late_dispatch(other: psycopg.Connection[Any], eventually: Eventually, meanwhile: Callable[[], object]) -> list[Any]:
    """Execute dispatch's statement; `meanwhile` is called between its snapshot and its locks. Returns its rows."""
    parameters = {"lookahead": LOOKAHEAD, "refill": LOOKAHEAD, "most": 10, "longest_run": 1, "after": 0, "sites": None}
    parameters |= {
        "delivery": 2.0,
        "travel": 0.1,
        "apart": 0.0005,
        "phases": 500,
        "confirmed_for": 0.5,
        "added_grace": 0.0,
        "most_slots": dispatching.ANY_NUMBER,
        "fewest": 4,
        "known_generation": 0,
        "clock": None,
    }
    statement = files("weir.workers.fetches").joinpath("sql", "dispatch.sql").read_text()
    lingering = statement.replace(
        "FROM weir_ratelimit_site\n    WHERE", "FROM weir_ratelimit_site, pg_advisory_xact_lock(1)\n    WHERE", 1
    )
    lingering = lingering.replace("UPDATE SKIP LOCKED", "UPDATE OF weir_ratelimit_site SKIP LOCKED", 1)

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
            return bool(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(1)")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(lambda: other.execute(lingering, parameters).fetchall())
        eventually(waits, "the late dispatch between its look and its lock")
        meanwhile()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(1)")
        return late.result()


def test_a_late_dispatch_does_not_give_the_room_of_a_site_twice(
    other_connection: psycopg.Connection[Any],
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fetches that were reserved since its snapshot take up room, although it cannot see them."""
    site_settings.set_rate(SITE, "100/s", max_concurrency=1)
    request_fetches([URL] * 2)
    monkeypatch.setattr(dispatching, "LONGEST_RUN", 1)
    sent: list[int] = []
    [(_, slot_ids, is_drained, _)] = late_dispatch(other_connection, eventually, lambda: sent.append(dispatch()))
    assert sent == [1]
    assert (slot_ids, is_drained) == ([], False)


def test_a_late_dispatch_knows_of_a_split_that_it_cannot_see(
    other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """Its slots are younger than the recall: it says that the site was split, and they are looked at again."""
    site_settings.set_rate(SITE, "100/s", covers_subdomains=True)
    late = request_fetch("https://a.site.example/")
    [(_, slot_ids, _, was_split)] = late_dispatch(
        other_connection, eventually, lambda: site_settings.set_rate("a.site.example", "1/h")
    )
    other_connection.commit()
    assert len(slot_ids) == 1
    assert slot_ids[0] > Site.objects.get(name=SITE).recalled_slot
    assert was_split
    assert strays.take_out(slot_ids) == 1
    late.refresh_from_db()
    assert late.site is not None
    assert (late.site.name, late.state) == ("a.site.example", FetchState.QUEUED)


@pytest.mark.parametrize("minutes", [10, None])
def test_a_paused_site_is_skipped(minutes: int | None) -> None:
    """Nothing is sent for a site that an operator paused; others go on."""
    request_fetches([URL, "https://other.example/"])
    site_settings.pause(SITE, timedelta(minutes=minutes) if minutes else None)
    assert dispatch() == 1
    assert [fetch.url for fetch in held()] == ["https://other.example/"]
    site_settings.resume(SITE)
    assert dispatch() == 1


def test_a_backed_off_site_is_skipped() -> None:
    """Nothing is sent for a site that asked for time; others go on."""
    request_fetches([URL, "https://other.example/"])
    site_settings.back_off(SITE, 600)
    assert dispatch() == 1
    assert [fetch.url for fetch in held()] == ["https://other.example/"]


def test_a_back_off_that_ends_within_the_lookahead_delays_the_run() -> None:
    """Slots that are reserved before its end start after it."""
    site_settings.set_rate(SITE, "10/s")
    request_fetches([URL] * 50)
    site_settings.back_off(SITE, 1)
    until = Site.objects.get().backed_off_until
    assert until is not None
    assert 5 <= dispatch() < 20
    assert Slot.objects.earliest("start_time").start_time == until


# --- many sites ---------------------------------------------------------------------------------------------------


def test_a_sites_run_is_never_split_over_two_messages(messages: list[Message]) -> None:
    """Only the holder of a whole run can keep the interval between its starts."""
    for number in range(30):
        site_settings.set_rate(f"site-{number}.example", "20/s")
    urls = [f"https://site-{number % 30}.example/{number}" for number in range(900)]
    site_of = {fetch.pk: fetch.site_id for fetch in request_fetches(urls)}
    assert dispatch() == 900
    runs = runs_sent(messages)
    sites = [{site_of[fetch_id] for fetch_id in run} for run in runs]
    assert sum(map(len, sites)) == len(set().union(*sites)) == 30
    assert sum(map(len, runs)) == 900
    assert all(SLOTS_A_MESSAGE <= len(run) < SLOTS_A_MESSAGE + 30 for run in runs[:-1])


def test_more_sites_than_one_statement_takes_are_all_dispatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites are taken in portions until none is left."""
    monkeypatch.setattr(dispatching, "SITES_A_STATEMENT", 7)
    request_fetches([f"https://site-{number}.example/" for number in range(30)])
    assert dispatch() == 30
    assert not Fetch.objects.filter(state=FetchState.QUEUED).exists()


def test_idle_sites_do_not_start_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """They start a little after each other, and none waits for more than a few sites before it."""
    monkeypatch.setattr(dispatching, "PHASES", 4)
    request_fetches([f"https://{letter}.example/" for letter in "abcdefgh"])
    before = database_now()
    dispatch()
    took = database_now() - before
    starts = list(Slot.objects.order_by("site_id").values_list("start_time", flat=True))
    for first, second in pairwise(starts[:3]):
        assert second - first >= timedelta(seconds=APART)
    assert max(starts) - min(starts) <= timedelta(seconds=3 * APART) + took


def test_a_busy_site_does_not_wait_for_idle_ones() -> None:
    """Its run goes on where the last one ended, however many sites wake before it."""
    request_fetches([f"https://h{number}.example/" for number in range(300)])
    request_fetch("https://busy.example/")
    busy = Site.objects.get(name="busy.example")
    reserved_until = database_now() + timedelta(seconds=TRAVEL + 0.05)
    Site.objects.filter(pk=busy.pk).update(next_start=reserved_until)
    dispatch()
    soonest = max(reserved_until, database_now() + timedelta(seconds=TRAVEL))  # the latter if dispatch was slow
    assert Slot.objects.get(site=busy).start_time - soonest < timedelta(seconds=0.1)


def test_sites_that_wake_are_dispatched_alone() -> None:
    """The others wait for the tick: a run for each site that wakes elsewhere would cost them a hand-over each time."""
    request_fetches([f"https://site-{number}.example/" for number in range(3)])
    woken = Site.objects.get(name="site-1.example")
    assert dispatch([woken.pk]) == 1
    assert held()[0].site_id == woken.pk
    assert dispatch([woken.pk]) == 0
    assert dispatch() == 2


def test_sites_that_look_empty_are_deactivated() -> None:
    """Dispatch does not look at a site again that has nothing queued."""
    site_settings.set_rate(SITE, "10/s")
    site_settings.set_rate("slow.example", "1/10s")
    request_fetches([URL, "https://slow.example/1", "https://slow.example/2"])
    dispatch()
    assert dict(Site.objects.values_list("name", "has_backlog")) == {SITE: False, "slow.example": True}


def test_a_site_that_another_transaction_has_locked_is_skipped(other_connection: psycopg.Connection[Any]) -> None:
    """A locked site is never waited for; the others are dispatched."""
    fetches = request_fetches([f"https://site-{number}.example/" for number in range(3)])
    other_connection.execute("SELECT 1 FROM weir_ratelimit_site WHERE name = 'site-1.example' FOR UPDATE")
    with waiting_for_nobody():
        assert dispatch() == 2
    assert Fetch.objects.get(state=FetchState.QUEUED).pk == fetches[1].pk
    other_connection.rollback()
    assert dispatch() == 1


def test_a_fetch_that_another_transaction_has_locked_is_skipped(other_connection: psycopg.Connection[Any]) -> None:
    """A row that is just being cancelled is not waited for."""
    site_settings.set_rate(SITE, "10/s")
    fetches = request_fetches([URL] * 3)
    other_connection.execute("SELECT 1 FROM weir_fetches_fetch WHERE id = %s FOR UPDATE", [fetches[0].pk])
    with waiting_for_nobody():
        assert dispatch() == 2
    assert [fetch.pk for fetch in held()] == [fetch.pk for fetch in fetches[1:]]


def test_dispatches_at_once_give_every_fetch_one_slot(in_threads: InThreads, messages: list[Message]) -> None:
    """However many run together, no fetch is sent twice and every site keeps its interval."""
    for number in range(20):
        site_settings.set_rate(f"site-{number}.example", "20/s")
    request_fetches([f"https://site-{number % 20}.example/{number}" for number in range(1_200)])
    assert sum(in_threads(4, lambda _number: dispatch())) == len(held())
    ids = [fetch_id for run in runs_sent(messages) for fetch_id in run]
    assert len(ids) == len(set(ids)) == len(held()) == Slot.objects.count()
    for site in Site.objects.all():
        run = list(Slot.objects.filter(site=site).order_by("start_time").values_list("start_time", flat=True))
        assert min(later - earlier for earlier, later in pairwise(run)) >= site.interval


def test_nothing_is_reserved_while_fetchers_are_far_behind(
    valkey: redis.Redis, messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If more messages wait than fetchers get through in time, the fetch stays in its queue."""
    monkeypatch.setattr(dispatching, "MOST_UNTAKEN", 2)
    monkeypatch.setattr(dispatching, "_overload", dispatching.Overload())
    fetch = request_fetch(URL)
    valkey.rpush("weir.fetch", *["{}"] * 3)
    assert dispatch() == 0
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.QUEUED
    assert runs_sent(messages) == []
    valkey.lpop("weir.fetch")
    assert dispatch() == 1


def test_nothing_is_reserved_while_an_outage_of_the_broker_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message could be sent: the slots would be lost, and their fetches would wait for their leases."""
    monkeypatch.setattr(broker_link._outage, "over_at", math.inf)
    fetch = request_fetch(URL)
    assert dispatch() == 0
    assert Fetch.objects.get(pk=fetch.pk).state == FetchState.QUEUED


def test_a_broker_that_is_down_leaves_the_fetches_to_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that could not be sent is not an error: the lease of its fetches runs out."""
    monkeypatch.setattr(dispatching, "publish", lambda *_arguments: False)
    request_fetch(URL)
    assert dispatch() == 1
    [fetch] = held()
    assert fetch.lease_until is not None
    assert fetch.lease_until < database_now() + timedelta(seconds=LOOKAHEAD + 10)
