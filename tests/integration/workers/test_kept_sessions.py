"""A tick finds the session with PostgreSQL that the one before it has left, and nothing else does."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery._state import _task_stack  # type: ignore[attr-defined]
from celery.fixups.django import DjangoFixup
from django.db import DatabaseError, connection, connections

from project.celery import app
from tests.set_up import needs_own_sessions
from weir.workers import task_names
from weir.workers.pools import kept_sessions

pytestmark = [pytest.mark.django_db(transaction=True), needs_own_sessions]

celerys: Any = app


@pytest.fixture(autouse=True)
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process keep sessions as a worker of Weir's queues does, which keeps none yet."""
    monkeypatch.setattr(kept_sessions, "_keepers", set())
    for fixup in celerys._fixups:
        if isinstance(fixup, DjangoFixup):
            of_worker: Any = fixup.worker_fixup
            monkeypatch.setattr(of_worker, "close_database", of_worker.close_database, raising=False)
    queues = SimpleNamespace(consume_from={"weir.ticks"})
    instance = SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=queues), _fixups=celerys._fixups))
    kept_sessions._replace_celerys_closing(instance=instance)


def session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        found: int = cursor.fetchone()[0]
        return found


def nothing() -> None:
    pass


def run(task_name: str, work: Callable[[], object] = nothing) -> None:
    """Run a task as a worker does: Celery's own receivers, before and after it, may close the session."""
    app.loader.import_default_modules()
    task = app.tasks[task_name]
    [fixup] = [fixup for fixup in celerys._fixups if isinstance(fixup, DjangoFixup)]
    _task_stack.push(task)
    try:
        fixup.worker_fixup.on_task_prerun(task)
        work()
    finally:
        fixup.worker_fixup.on_task_postrun(task)
        _task_stack.pop()


@pytest.fixture
def tick() -> Iterator[Callable[..., int]]:
    """Return what runs a tick, which returns the session that it had."""

    def run_tick(work: Callable[[], object] = nothing) -> int:
        had: list[int] = []

        def sweep() -> None:
            had.append(session())
            work()

        run(task_names.SWEEP, sweep)
        return had[0]

    yield run_tick
    connection.close()


def test_a_tick_has_the_session_of_the_one_before(tick: Callable[..., int]) -> None:
    assert len({tick() for _ in range(3)}) == 1


@pytest.mark.parametrize("task_name", [task_names.FETCH_BATCH, task_names.HEARTBEAT])
def test_other_tasks_begin_and_end_without_a_session(tick: Callable[..., int], task_name: str) -> None:
    """A fetcher runs as many as it has threads."""
    before = tick()
    run(task_name, lambda: session() != before)
    assert connection.connection is None


def test_one_that_met_an_error_is_closed(tick: Callable[..., int]) -> None:
    def fail() -> None:
        with pytest.raises(DatabaseError):
            connection.cursor().execute("SELECT FROM nothing")

    assert tick(fail) != tick()


def test_one_that_was_cut_is_found_out(tick: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a fail-over of PostgreSQL: no tick fails for that."""
    monkeypatch.setattr(kept_sessions, "ASKED_AFTER_S", 0.0)
    before = tick()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [before])
    other.close()
    assert tick() != before


def test_only_a_few_threads_keep_one(tick: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs PostgreSQL some megabytes, and a pool may have many threads."""
    monkeypatch.setattr(kept_sessions, "MOST_THREADS", 1)
    tick()
    kept: list[bool] = []

    def in_another() -> None:
        tick()
        kept.append(connections["default"].connection is not None)
        connections["default"].close()

    thread = threading.Thread(target=in_another)
    thread.start()
    thread.join()
    assert kept == [False]
    assert connection.connection is not None
