"""The writer stores what a fetcher has seen, in its own thread: the loop never waits, nothing is left behind."""

from typing import Any

import psycopg
import pytest

from tests.integration.conftest import Eventually, WaitersOf
from tests.integration.fetching import running
from workers.fetches.fetcher import writer as writing
from workers.fetches.fetcher.outcomes import judge
from workers.fetches.fetcher.writer import Writer
from workers.fetches.jobs import Answer, Failure, Job, Outcome, Snoozed
from workers.fetches.models import Fetch, State

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages", "long_lookahead")]


def answer(job: Job) -> Answer:
    return Answer(job=job, status_code=200, headers=(), body=b"<html>", lateness_ms=1.0, elapsed_ms=2.0)


def test_the_writer_stores_all_that_it_was_given_before_it_closes() -> None:
    """Closing waits for what is left; each event is counted once."""
    jobs = running(30)
    counted: list[int] = []
    writer = Writer(counted.append)
    for number, job in enumerate(jobs):
        events = (answer(job), Failure(job=job, error="reset", lateness_ms=1.0), Snoozed(job=job))
        writer.put(events[number % 3])
    assert writer.close(20)
    assert sum(counted) == 30
    states = [Fetch.objects.filter(state=state).count() for state in (State.DONE, State.QUEUED)]
    assert states == [10, 20]


def test_putting_never_waits_for_the_database(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """The loop's thread hands over while the writer waits for a lock; results are stored afterwards."""
    jobs = running(2)
    other_connection.execute("SELECT 1 FROM fetches_fetch FOR UPDATE")
    writer = Writer(lambda _count: None)
    writer.put(answer(jobs[0]))
    eventually(lambda: waiters(other_connection) == 1, "the writer to wait")
    writer.put(answer(jobs[1]))
    other_connection.rollback()
    assert writer.close(20)
    assert Fetch.objects.filter(state=State.DONE).count() == 2


def test_a_single_result_is_stored_in_time(eventually: Eventually) -> None:
    """It does not wait for others for longer than a period."""
    [job] = running()
    writer = Writer(lambda _count: None)
    writer.put(answer(job))
    eventually(lambda: Fetch.objects.get().state == State.DONE, "the result", seconds=5)
    assert writer.close(20)


def test_an_event_that_cannot_be_judged_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error fails one fetch; the writer goes on."""
    jobs = running(3)

    def broken(event: Any, **options: Any) -> Outcome:
        if event.job is jobs[1]:
            raise RuntimeError("unexpected")
        return judge(event, **options)

    monkeypatch.setattr(writing, "judge", broken)
    writer = Writer(lambda _count: None)
    for job in jobs:
        writer.put(answer(job))
    assert writer.close(20)
    assert [Fetch.objects.get(pk=job.fetch_id).state for job in jobs] == [State.DONE, State.FAILED, State.DONE]
