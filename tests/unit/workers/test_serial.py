"""Serial queues: of what shares one, a thread runs one after the other, and no other thread waits for it."""

import threading
from collections.abc import Callable

import pytest

from project.celery import app
from tests.waiting import wait_for
from weir.workers import task_names
from weir.workers.pools import serial
from weir.workers.pools.serial import SerialQueue
from weir.workers.schedule import SCHEDULE

WITHIN_S = 10.0


class Work:
    """What is run: it notes that it began, and goes on when it may."""

    def __init__(self) -> None:
        self.began = 0
        self.may_end = threading.Semaphore(0)

    def __call__(self) -> None:
        self.began += 1
        assert self.may_end.acquire(timeout=WITHIN_S)


def in_thread(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_who_finds_it_busy_does_not_wait_and_is_run_next() -> None:
    """However many ticks of a name come, one run follows: it begins after the last of them."""
    queue, first, second = SerialQueue(), Work(), Work()
    taken = in_thread(lambda: queue.run(first))
    wait_for(lambda: first.began == 1, WITHIN_S, "the first to begin")
    for _ in range(5):
        queue.run(second)  # returns
        queue.run(first)
    assert (first.began, second.began) == (1, 0)

    for work in (first, second, first):
        work.may_end.release()
    taken.join(WITHIN_S)
    assert (first.began, second.began) == (2, 1)


def test_what_waits_behind_an_error_is_run_by_the_next() -> None:
    """The error is of the task that was run; no other is lost with it."""
    queue, begun = SerialQueue(), threading.Event()
    may_fail, ran = threading.Event(), []

    def fails() -> None:
        begun.set()
        assert may_fail.wait(WITHIN_S)
        raise LookupError

    def waits() -> None:
        ran.append("waits")

    def fail() -> None:
        with pytest.raises(LookupError):
            queue.run(fails)

    failing = in_thread(fail)
    assert begun.wait(WITHIN_S)
    queue.run(waits)
    may_fail.set()
    failing.join(WITHIN_S)
    assert ran == []

    queue.run(lambda: ran.append("next"))
    assert ran == ["waits", "next"]


def test_nothing_is_left_to_a_thread_that_is_about_to_leave() -> None:
    """Many threads at once: after the last call of each, its work has begun once more."""
    queue, count, lock = SerialQueue(), [0], threading.Lock()
    seen = []

    def work() -> None:
        with lock:
            count[0] += 1

    def call_often() -> None:
        for _ in range(2_000):
            before = count[0]
            queue.run(work)
            seen.append(before)

    threads = [in_thread(call_often) for _ in range(4)]
    for thread in threads:
        thread.join(WITHIN_S)
    total = count[0]
    assert total > max(seen)
    queue.run(work)
    assert count[0] == total + 1


def test_ticks_run_in_the_serial_queue_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `weir.maintenance` in one, and of `weir.mail`; the others in one each, which no other waits for."""
    app.loader.import_default_modules()
    entered: list[SerialQueue] = []
    monkeypatch.setattr(SerialQueue, "run", lambda queue, _work: entered.append(queue))
    of_queue = {"weir.maintenance": serial.MAINTENANCE, "weir.mail": serial.MAIL}
    of_tick = {
        task_names.SWEEP: serial.SWEEP,
        task_names.PUBLISH_POSTPONED: serial.PUBLISH,
        task_names.KEEP_WATCH: serial.WATCH,
        task_names.DELIVER_WEBHOOKS: serial.WEBHOOKS,
        task_names.FLUSH_UNREAD: serial.FLUSH,
        task_names.PERFORM_EFFECTS: serial.EFFECTS,
    }
    beside_each_other = {task_names.DISPATCH, task_names.FETCH_BATCH}  # which are of the sites and slots that they name
    for entry in SCHEDULE:
        if entry.task not in beside_each_other:
            app.tasks[entry.task].run()
            assert entered == [of_tick.get(entry.task) or of_queue[entry.queue]], entry.name
            entered.clear()
    assert not [name for name in beside_each_other if hasattr(app.tasks[name].run, "__wrapped__")]
