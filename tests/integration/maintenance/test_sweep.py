"""Sweep finds lost messages, fetches, wake-ups and calls, and takes nothing from fetchers that are alive."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.db.models import F
from structlog.testing import capture_logs

from tests.integration.conftest import (
    Eventually,
    Message,
    WaitersOf,
    claim,  # a message that is newer than all slots
    database_now,
    dispatch_message,
    waiting_for_nobody,
)
from weir.ratelimit import site_settings
from weir.ratelimit.models import Site, Slot
from weir.workers import task_names
from weir.workers.fetches.cancelling import cancel
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.enqueue import request_fetch, request_fetches
from weir.workers.fetches.maintenance import sweep as sweeping
from weir.workers.fetches.maintenance.sweep import sweep
from weir.workers.fetches.models import Fetch, FetchState
from weir.workers.processes import presence
from weir.workers.processes.models import Process
from weir.workers.processes.presence import Presence

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]

URL = "https://site.example/"
DISPATCH_ALL = (task_names.DISPATCH, ())  # of all sites
ARRIVED = "shop.tasks.arrived"
HOUR = timedelta(hours=1)
GRACE = timedelta(seconds=10)  # a busy machine claims late


def reserved(count: int = 1, *, max_attempts: int = 5, on_done: str | None = None) -> list[int]:
    site_settings.set_rate("site.example", "10/s", grace=GRACE)
    fetches = request_fetches([URL] * count, max_attempts=max_attempts, on_done=on_done)
    assert dispatch() == count
    return [fetch.pk for fetch in fetches]


def running(count: int = 1, *, max_attempts: int = 5, on_done: str | None = None) -> list[int]:
    ids = reserved(count, max_attempts=max_attempts, on_done=on_done)
    assert len(claim(ids)) == count
    return ids


def expire() -> None:
    """Let every lease run out, and move every slot as far back."""
    Fetch.objects.update(lease_until=F("lease_until") - HOUR)
    Slot.objects.update(start_time=F("start_time") - HOUR, use_until=F("use_until") - HOUR)


@pytest.fixture
def lost_process(monkeypatch: pytest.MonkeyPatch) -> Process:
    """Return the process by which this one claims; it has made no turn for a minute, and another one has."""
    now = database_now()
    times = {"started_at": now - HOUR, "steady_since": now - HOUR}
    Process.objects.create(kind="ticks", name="ticks@here", host="here", pid=2, **times)
    frozen = Process.objects.create(
        kind="fetcher", name="fetcher@here", host="here", pid=1, turned_at=now - timedelta(minutes=1), **times
    )
    monkeypatch.setattr(presence, "_presence", Presence(kind="fetcher", name="fetcher@here", id=frozen.pk))
    return frozen


@pytest.mark.usefixtures("lost_process")
def test_what_a_lost_process_holds_is_taken_back_when_its_run_is_over() -> None:
    """Not before: the process may wake up, and would start it in its slot. No attempt counts, as at a lease's end."""
    ids = running(3)
    assert sweep() == 0
    Slot.objects.update(start_time=F("start_time") - HOUR, use_until=F("use_until") - HOUR)
    with capture_logs() as logs:
        assert sweep() == 3
    assert set(Fetch.objects.filter(pk__in=ids).values_list("state", "attempts")) == {(FetchState.QUEUED, 0)}
    assert [(log["event"], log["process"], log["fetches"]) for log in logs if log["event"] == "process_lost"] == [
        ("process_lost", "fetcher@here", 3)
    ]


def test_a_process_that_turns_keeps_what_it_holds(lost_process: Process) -> None:
    """Until its leases run out, however long its runs have been over: answers may take as long."""
    Process.objects.filter(pk=lost_process.pk).update(turned_at=database_now())
    running(3)
    Slot.objects.update(start_time=F("start_time") - HOUR, use_until=F("use_until") - HOUR)
    assert sweep() == 0


@pytest.mark.usefixtures("lost_process")
def test_what_a_lost_process_got_anew_is_not_taken_back(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """It has come back while sweep waited for a lock: the fetch is in another slot, of a run that is not over."""
    [fetch] = running()
    Slot.objects.update(start_time=F("start_time") - HOUR, use_until=F("use_until") - HOUR)
    other_connection.execute("UPDATE weir_fetches_fetch SET slot_id = slot_id + 1")

    def swept() -> int:
        try:
            return sweep()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(swept)
        eventually(lambda: waiters(other_connection) == 1, "sweep to wait for the fetch")
        other_connection.commit()
        assert answer.result(20) == 0
    assert Fetch.objects.get(pk=fetch).state == FetchState.RUNNING


def test_a_successor_is_held_by_the_process_that_has_its_slot(lost_process: Process) -> None:
    """Where it is lost before it heard of the successor, that is taken back, too."""
    *_, last = running(20)  # whose slot lies two seconds ahead
    successor = request_fetch(URL)
    assert cancel(last)
    assert Fetch.objects.get(pk=successor.pk).claimed_by == lost_process.pk


@pytest.mark.parametrize("held", [reserved, running])
def test_what_is_held_in_time_is_left_alone(held: Callable[[int], list[int]]) -> None:
    """A fetch whose lease has not run out is not taken back."""
    held(5)
    before = list(Fetch.objects.order_by("pk").values())
    assert sweep() == 0
    assert list(Fetch.objects.order_by("pk").values()) == before


def test_a_lost_message_costs_no_attempt(messages: list[Message]) -> None:
    """A fetch that was reserved and never claimed is queued again at once, its slot given back, its site awake."""
    reserved(3, max_attempts=1)
    expire()
    messages.clear()
    before = database_now()
    assert sweep() == 3
    for fetch in Fetch.objects.all():
        assert (fetch.state, fetch.attempts, fetch.slot_id, fetch.lease_until) == (FetchState.QUEUED, 0, None, None)
        assert fetch.losses == 0
        assert fetch.not_before <= before
    assert Slot.objects.filter(released_at__isnull=False).count() == 3
    assert Site.objects.get().has_backlog
    assert messages == [dispatch_message("site.example")]
    assert sweep() == 0


def test_all_that_was_lost_is_found_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole fetcher's worth is taken back in one sweep, in portions."""
    monkeypatch.setattr(sweeping, "BATCH", 2)
    monkeypatch.setattr(sweeping, "MOST_FOUND", 5)
    running(11)
    expire()
    assert sweep() == 11
    assert Fetch.objects.filter(state=FetchState.QUEUED).count() == 11


def test_an_overlooked_site_is_activated_and_dispatched(messages: list[Message]) -> None:
    """A process that died between commit and activation leaves a site inactive that has work: sweep finds it."""
    request_fetch(URL)
    Site.objects.update(has_backlog=False)
    messages.clear()
    sweep()
    assert Site.objects.get().has_backlog
    assert messages == [DISPATCH_ALL]
    messages.clear()
    sweep()
    assert messages == []


# --- calls that were lost -----------------------------------------------------------------------------------------


def ended(*, seconds_ago: float, called: bool = False) -> Fetch:
    """Create a fetch that ended that long ago, and whose call was not noted."""
    fetch = request_fetch(URL, on_done=ARRIVED)
    cancel(fetch.pk)
    now = database_now()
    Fetch.objects.filter(pk=fetch.pk).update(
        finished_at=now - timedelta(seconds=seconds_ago), on_done_called_at=now if called else None
    )
    return fetch


def test_a_call_that_was_never_noted_is_made_again(messages: list[Message]) -> None:
    """An overdue call is sent once more and noted; one that was noted, or is young, is left alone."""
    overdue = ended(seconds_ago=60)
    ended(seconds_ago=60, called=True)
    ended(seconds_ago=5)
    messages.clear()
    sweep()
    assert messages == [(ARRIVED, (overdue.pk,))]
    assert Fetch.objects.get(pk=overdue.pk).on_done_called_at is not None
    messages.clear()
    sweep()
    assert messages == []


def test_a_call_is_made_again_until_the_broker_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the broker is away nothing is noted, so that no call is lost."""
    overdue = ended(seconds_ago=60)
    with monkeypatch.context() as away:
        away.setattr("weir.workers.fetches.on_done.calls.call", lambda *_arguments, **_headers: False)
        sweep()
    assert Fetch.objects.get(pk=overdue.pk).on_done_called_at is None
    sweep()
    assert Fetch.objects.get(pk=overdue.pk).on_done_called_at is not None


def test_a_fetch_without_on_done_calls_nothing(messages: list[Message]) -> None:
    """It sends nothing, however old it grows."""
    fetch = request_fetch(URL)
    cancel(fetch.pk)
    Fetch.objects.update(finished_at=F("finished_at") - HOUR)
    messages.clear()
    sweep()
    assert messages == []


def test_a_fetch_that_others_hold_stops_no_sweep(other_connection: psycopg.Connection[Any]) -> None:
    """However long: the next sweep after that takes it back, and all others are taken back now."""
    held, *_ = running(3)
    expire()
    other_connection.execute("SELECT 1 FROM weir_fetches_fetch WHERE id = %s FOR UPDATE", [held])
    with waiting_for_nobody():
        assert sweep() == 2
    other_connection.rollback()
    assert sweep() == 1
