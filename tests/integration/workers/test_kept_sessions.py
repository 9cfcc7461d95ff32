"""A tick finds the session with PostgreSQL that the one before it has left, and nothing else does."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

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
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[kept_sessions._Kept]]:
    """Make this process keep sessions as a worker of Weir's queues does, which keeps none yet."""
    sessions: list[kept_sessions._Kept] = []
    monkeypatch.setattr(kept_sessions, "_kept", sessions)
    for fixup in celerys._fixups:
        if isinstance(fixup, DjangoFixup):
            of_worker: Any = fixup.worker_fixup
            monkeypatch.setattr(of_worker, "close_database", of_worker.close_database, raising=False)
    queues = SimpleNamespace(consume_from={"weir.ticks"})
    instance = SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=queues), _fixups=celerys._fixups))
    kept_sessions._replace_celerys_closing(instance=instance)
    yield sessions
    for one in sessions:
        one.session.close()


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
    task.push_request(id=uuid4().hex)
    try:
        fixup.worker_fixup.on_task_prerun(task)
        work()
    finally:
        fixup.worker_fixup.on_task_postrun(task)
        task.pop_request()
        _task_stack.pop()
        assert connection.connection is None  # in this thread


@pytest.fixture
def tick() -> Callable[..., int]:
    """Return what runs a tick, which returns the session that it had."""

    def run_tick(work: Callable[[], object] = nothing) -> int:
        had: list[int] = []

        def sweep() -> None:
            had.append(session())
            work()

        run(task_names.SWEEP, sweep)
        return had[0]

    return run_tick


def test_a_tick_has_the_session_of_the_one_before(tick: Callable[..., int]) -> None:
    assert len({tick() for _ in range(3)}) == 1


@pytest.mark.parametrize("task_name", [task_names.FETCH_BATCH, task_names.HEARTBEAT])
def test_other_tasks_begin_and_end_without_a_session(tick: Callable[..., int], task_name: str) -> None:
    """A fetcher runs as many as it has threads."""
    before, had = tick(), []
    run(task_name, lambda: had.append(session()))
    assert had != [before]
    assert tick() == before


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


def switch_autocommit_off() -> None:
    connection.set_autocommit(False)


def begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


@pytest.mark.parametrize("leave_open", [switch_autocommit_off, begin])
def test_one_in_which_a_transaction_was_left_is_closed(
    tick: Callable[..., int], leave_open: Callable[[], object]
) -> None:
    """As by a project's own receiver of Celery's signals: nothing of the ticks that follow would be committed."""
    assert tick(leave_open) != tick()
    assert connection.get_autocommit()


def test_sessions_with_other_databases_are_closed(tick: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would notice there that one was cut. A project's own receivers of Celery's signals may open some."""
    before, closed = tick(), []
    other = SimpleNamespace(alias="other", close=lambda: closed.append("other"))
    monkeypatch.setattr(connections, "all", lambda **_options: [connection, other])
    assert tick() == before
    assert closed == ["other"] * 2  # before the tick, and after it


def test_a_session_goes_from_thread_to_thread(tick: Callable[..., int]) -> None:
    """A pool of threads that has had much to do hands ticks to all of its threads in turn."""
    had = [tick()]
    for _ in range(3):
        in_another_thread(lambda: had.append(tick()))
    assert len({*had}) == 1


def test_only_a_few_are_kept(
    tick: Callable[..., int], kept: list[kept_sessions._Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs PostgreSQL some megabytes. No two ticks have one at a time."""
    monkeypatch.setattr(kept_sessions, "MOST_KEPT", 2)
    had: list[int] = []

    def three_at_once(more: int = 2) -> None:
        had.append(tick((lambda: in_another_thread(lambda: three_at_once(more - 1))) if more else nothing))

    three_at_once()
    assert len({*had}) == 3
    assert len(kept) == 2


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
