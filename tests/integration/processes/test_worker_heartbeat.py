"""Who writes the heartbeat of a worker."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.conftest import Eventually
from weir.workers.processes import presence, worker_heartbeat
from weir.workers.processes.models import Process


@pytest.mark.django_db(transaction=True)
def test_a_pool_of_greenlets_has_one_session_for_all_heartbeats(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timer makes a greenlet for each call, whose own session would stay open: one more with each heartbeat."""
    ends, callers = threading.Event(), set()
    monkeypatch.setattr(worker_heartbeat, "_ends", ends)
    monkeypatch.setattr(presence, "_presence", None)
    monkeypatch.setattr(presence, "HEARTBEAT_EVERY_S", 0.1)
    noted = worker_heartbeat._note

    def note(known: presence.Presence) -> None:
        callers.add(threading.current_thread().name)
        noted(known)

    monkeypatch.setattr(worker_heartbeat, "_note", note)
    worker = _worker(SimpleNamespace(call_repeatedly=_each_in_a_thread_of_its_own(ends)))
    try:
        worker_heartbeat.WorkerHeartbeat(None).start(worker)
        began_at = Process.objects.get().turned_at
        beats = Process.objects.filter(turned_at__gt=began_at)
        eventually(beats.exists, "a heartbeat")
        later = Process.objects.filter(turned_at__gt=beats.get().turned_at)
        eventually(later.exists, "another heartbeat")
        assert len(callers) == 1
    finally:
        ends.set()


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_ends_at_once_leaves_nothing(eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row, and no thread with a session: a test's database could not be dropped (`celery.contrib.testing`)."""
    monkeypatch.setattr(worker_heartbeat, "_ends", threading.Event())
    monkeypatch.setattr(presence, "_presence", None)
    step, worker = worker_heartbeat.WorkerHeartbeat(None), _worker(SimpleNamespace())
    step.start(worker)
    assert Process.objects.exists()
    step.terminate(worker)
    assert not Process.objects.exists()
    eventually(lambda: not any(thread.name == "heartbeat" for thread in threading.enumerate()), "the thread to end")


def _worker(timer: SimpleNamespace) -> Any:
    return SimpleNamespace(
        pool=SimpleNamespace(is_green=True),
        app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=["celery"]))),
        hostname="own@host",
        timer=timer,
    )


def _each_in_a_thread_of_its_own(ends: threading.Event) -> Any:
    def call_repeatedly(every_s: float, call: Any, arguments: Any) -> None:
        def go_on() -> None:
            while not ends.wait(every_s):
                threading.Thread(target=call, args=arguments, daemon=True).start()

        threading.Thread(target=go_on, daemon=True).start()

    return call_repeatedly
