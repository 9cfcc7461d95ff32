"""The writer stores what a fetcher has seen, in its own thread: the loop never waits, nothing is left behind."""

import threading
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from pytest_django import Settings

from tests.integration.conftest import Eventually, Message, WaitersOf, database_now
from tests.integration.fetching import running
from weir.conf import settings as weir_settings
from weir.workers.fetches.enqueue import request_fetch
from weir.workers.fetches.fetcher.results import writer as writing
from weir.workers.fetches.fetcher.results.outcomes import judge
from weir.workers.fetches.fetcher.results.store import take_in_hand
from weir.workers.fetches.fetcher.results.writer import Writer
from weir.workers.fetches.jobs import Answer, Failure, FetchOutcome, Flaw, Job, Snoozed
from weir.workers.fetches.models import Fetch, FetchState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def answer(job: Job) -> Answer:
    return Answer(job=job, status_code=200, headers=(), body=b"<html>", lateness_ms=1.0, elapsed_ms=2.0)


def test_the_writer_stores_all_that_it_was_given_before_it_closes() -> None:
    """Closing waits for what is left; each event is counted once."""
    jobs = running(30)
    counted: list[int] = []
    writer = Writer(lambda count, _reservations: counted.append(count))
    for number, job in enumerate(jobs):
        events = (answer(job), Failure(job=job, error="reset", lateness_ms=1.0), Snoozed(job=job))
        writer.put(events[number % 3])
    assert writer.close(20)
    assert sum(counted) == 30
    states = [Fetch.objects.filter(state=state).count() for state in (FetchState.DONE, FetchState.QUEUED)]
    assert states == [10, 20]


def test_putting_never_waits_for_the_database(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """The loop's thread hands over while the writer waits for a lock; results are stored afterwards."""
    jobs = running(2)
    other_connection.execute("SELECT 1 FROM weir_fetches_fetch FOR UPDATE")
    writer = Writer(lambda _count, _reservations: None)
    writer.put(answer(jobs[0]))
    eventually(lambda: waiters(other_connection) == 1, "the writer to wait")
    writer.put(answer(jobs[1]))
    other_connection.rollback()
    assert writer.close(20)
    assert Fetch.objects.filter(state=FetchState.DONE).count() == 2


@pytest.mark.parametrize("by", ["web code", "somebody else"])
def test_a_new_site_in_an_open_transaction_holds_up_no_result(
    by: str, other_connection: psycopg.Connection[Any], eventually: Eventually
) -> None:
    """A redirect leads to its host. If the row itself is locked, the redirected fetch begins again later."""
    redirected, *others = running(21)
    ready, may_end = threading.Event(), threading.Event()

    def ask() -> None:
        with transaction.atomic():
            request_fetch("https://new.example/page")
            ready.set()
            may_end.wait(60)
        connections.close_all()

    web = threading.Thread(target=ask)
    if by == "web code":
        web.start()
        assert ready.wait(20)
    else:
        other_connection.execute(
            "INSERT INTO weir_ratelimit_site (name, interval, burst, has_backlog, covers_subdomains) "
            "VALUES ('new.example', '1 s', 1, false, false)"
        )
    writer = Writer(lambda _count, _reservations: None)
    location = ((b"Location", b"https://new.example/x"),)
    writer.put(replace(answer(redirected), status_code=302, headers=location))
    for job in others:
        writer.put(answer(job))
    try:
        eventually(lambda: Fetch.objects.filter(state=FetchState.DONE).count() == 20, "all other results", seconds=5)
        eventually(
            lambda: Fetch.objects.get(pk=redirected.fetch_id).state == FetchState.QUEUED, "the redirect", seconds=5
        )
    finally:
        may_end.set()
        other_connection.rollback()
        assert writer.close(20)
    again = Fetch.objects.get(pk=redirected.fetch_id)
    assert (again.redirects, again.attempts) == (1 if by == "web code" else 0, 0)
    if by == "web code":
        web.join()


def test_a_single_result_is_stored_in_time(eventually: Eventually) -> None:
    """It does not wait for others for longer than a period."""
    [job] = running()
    writer = Writer(lambda _count, _reservations: None)
    writer.put(answer(job))
    eventually(lambda: Fetch.objects.get().state == FetchState.DONE, "the result", seconds=5)
    assert writer.close(20)


@pytest.mark.parametrize("keep", [False, True])
def test_what_came_of_flawed_answers_is_kept_only_where_that_is_set(
    keep: bool, settings: Settings, messages: list[Message]
) -> None:
    """It fails all the same, and `on_done` is called at the end, when the row has all of it."""
    settings.WEIR_FETCH_KEEP_INCOMPLETE = keep
    cut, large, retried, missing = (replace(job, attempts=4) for job in running(4, on_done="shop.tasks.arrived"))
    messages.clear()
    writer = Writer(lambda _count, _reservations: None)
    for event in (
        replace(answer(cut), flaw=Flaw.CUT, reason="the connection was reset"),
        replace(answer(large), flaw=Flaw.TOO_LARGE),
        replace(answer(replace(retried, attempts=0)), flaw=Flaw.CUT, reason="the connection was reset"),
        replace(answer(missing), status_code=404, flaw=Flaw.CUT, reason="the connection was reset"),
    ):
        writer.put(event)
    assert writer.close(20)
    rows = {fetch.pk: fetch for fetch in Fetch.objects.all()}
    too_large = f"the body is larger than {weir_settings.WEIR_FETCH_MAX_BODY} bytes (WEIR_FETCH_MAX_BODY)"
    for job, state, mark in (
        (cut, FetchState.FAILED, "the connection was reset" * keep),
        (large, FetchState.FAILED, too_large * keep),
        (retried, FetchState.QUEUED, ""),
        (missing, FetchState.DONE, "the connection was reset"),
    ):
        fetch = rows[job.fetch_id]
        assert (fetch.state, fetch.incomplete) == (state, mark)
        empty = b"" if state == FetchState.DONE else None
        assert fetch.content == (b"<html>" if keep and state != FetchState.QUEUED else empty)
    assert rows[cut.fetch_id].error == "the connection was reset (attempt 5 of 5)"
    assert rows[cut.fetch_id].status_code == 200
    assert {arguments for _, arguments in messages} >= {(job.fetch_id,) for job in (cut, large, missing)}


def test_postgresql_knows_which_suspect_is_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is committed before the answer is read, and removed once that is stored: a later death has another cause."""
    jobs = running(4)
    seen: list[list[int]] = []

    def looked(event: Any, **options: Any) -> FetchOutcome:
        seen.append([*Fetch.objects.filter(in_hand=True).values_list("pk", flat=True)])
        return judge(event, **options)

    monkeypatch.setattr(writing, "judge", looked)
    writer = Writer(lambda _count, _reservations: None)
    for job in jobs:
        writer.put(answer(replace(job, losses=writing.SUSPECT_LOSSES)))
    assert writer.close(20)
    assert seen == [[job.fetch_id] for job in jobs]
    assert set(Fetch.objects.values_list("state", "in_hand", "losses")) == {(FetchState.DONE, False, 0)}


@pytest.mark.parametrize("taken_back", [True, False])
def test_what_was_taken_back_or_cancelled_is_not_taken_in_hand(taken_back: bool) -> None:
    [job] = running()
    if taken_back:
        Fetch.objects.update(slot_id=job.slot_id + 1)
    else:
        Fetch.objects.update(state=FetchState.CANCELLED, finished_at=database_now())
    assert not take_in_hand(fetch_id=job.fetch_id, slot_id=job.slot_id)
    assert not Fetch.objects.get().in_hand


@pytest.mark.parametrize(("error", "state"), [(RuntimeError, FetchState.FAILED), (MemoryError, FetchState.QUEUED)])
def test_an_event_that_cannot_be_judged_fails_alone(
    error: type[Exception], state: FetchState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error fails one fetch; the writer goes on. If memory was short, the fetch is tried again."""
    jobs = running(3)

    def broken(event: Any, **options: Any) -> FetchOutcome:
        if event.job is jobs[1]:
            raise error
        return judge(event, **options)

    monkeypatch.setattr(writing, "judge", broken)
    writer = Writer(lambda _count, _reservations: None)
    for job in jobs:
        writer.put(answer(job))
    assert writer.close(20)
    assert [Fetch.objects.get(pk=job.fetch_id).state for job in jobs] == [FetchState.DONE, state, FetchState.DONE]
    assert set(Fetch.objects.values_list("attempts", "in_hand", "losses")) == {(1, False, 0)}
