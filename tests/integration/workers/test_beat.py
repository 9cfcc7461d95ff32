"""Beat may run many times: the one that holds the lease ticks, and when it goes another one takes over."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from structlog.testing import capture_logs

from project.celery import app
from tests.integration.conftest import Eventually, Process, StartPython
from tests.set_up import needs_own_sessions
from weir.workers import broker_link, task_names
from weir.workers.beat import scheduler as beat
from weir.workers.beat import work
from weir.workers.beat.entries import BeatEntry
from weir.workers.beat.scheduler import STANDBY, LeasedScheduler
from weir.workers.models import BeatLease
from weir.workers.ticks import MOST_WAITING

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE = "test-beat"

BEAT = """
import time
from project.celery import app
from weir.workers.beat.scheduler import LeasedScheduler
beat = LeasedScheduler(app=app)
print("standing by", flush=True)
while not beat._holds_lease():
    time.sleep(0.01)
print("holds the lease", flush=True)
while True:
    wait_s = beat.tick()
    print("ticks" if beat._has_lease else "stands by", flush=True)
    time.sleep(max(0, min(1, wait_s)))
"""


@pytest.fixture(autouse=True)
def _every_second() -> None:
    """Create one task that is due each second, in a queue of its own that no worker consumes."""
    second = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(
        name="test", task=task_names.HEARTBEAT, interval=second, queue=QUEUE, args='["default"]'
    )


@pytest.fixture
def sent() -> Iterator[Callable[[], int]]:
    """Return a function that counts the messages which the broker has."""
    broker = redis.from_url(settings.REDIS_URL)
    broker.delete(QUEUE)
    yield lambda: int(broker.llen(QUEUE))
    broker.delete(QUEUE)
    broker.close()


@pytest.fixture
def beats() -> Iterator[list[Any]]:
    """Return two schedulers, as two processes would have them: each has a name of its own."""
    schedulers = [LeasedScheduler(app=app), LeasedScheduler(app=app)]
    yield schedulers
    for scheduler in schedulers:
        scheduler.close()


def holders() -> list[UUID]:
    """Return the beat that has the lease."""
    return [*BeatLease.objects.filter(lease_until__gt=Now()).values_list("holder", flat=True)]


def test_beat_saves_what_it_sent_in_one_round_trip(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually
) -> None:
    """Far from PostgreSQL, it would otherwise wait for longer than until the next task is due."""
    first, _ = beats
    eventually(lambda: first.tick() >= 0 and sent() > 0, "a message")
    task = PeriodicTask.objects.get(name="test")
    assert task.total_run_count == 1
    assert task.last_run_at is not None
    first._dirty.add("test")
    with CaptureQueriesContext(connection) as queries:
        first.sync()
    assert len(queries) == 1


def test_beat_sends_all_that_is_due_without_a_look_at_the_schedule(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually
) -> None:
    """Far from PostgreSQL, a look for each message would take longer than until the next one is due.

    When the schedule was changed is told with the lease.
    """
    second = IntervalSchedule.objects.get()
    for number in range(4):
        PeriodicTask.objects.create(name=f"test {number}", task=task_names.PURGE_SLOTS, interval=second, queue=QUEUE)
    first, _ = beats
    first.tick()
    eventually(lambda: all(entry.is_due().is_due for entry in first.schedule.values()), "all to be due")
    with CaptureQueriesContext(connection) as queries:
        first.tick()
    assert sent() == 5
    assert not [query for query in queries if "SELECT" in query["sql"]]


def test_the_first_that_ticks_holds_the_lock_and_sends(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually
) -> None:
    """What is due is sent by the holder."""
    first, _ = beats
    eventually(lambda: first.tick() >= 0 and sent() > 0, "a message")
    assert len(holders()) == 1


def test_the_second_stands_by_and_sends_nothing(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually
) -> None:
    """While another beat holds the lease, this one sends nothing, and looks again in a second."""
    first, second = beats
    first.tick()
    eventually(lambda: any(entry.is_due().is_due for entry in second.schedule.values()), "the task to be due")
    assert [second.tick() for _ in range(5)] == [STANDBY] * 5
    assert sent() == 0
    eventually(lambda: first.tick() >= 0 and sent() == 1, "the holder's message")


@pytest.fixture
def ticks_of_an_outage() -> Iterator[redis.Redis]:
    """Return a client of the broker, whose queue of ticks is empty, and which no worker consumes."""
    with redis.from_url(settings.REDIS_URL) as broker:
        broker.delete("weir.ticks")
        yield broker
        broker.delete("weir.ticks")


def test_ticks_that_no_worker_takes_do_not_pile_up(
    beats: list[Any], ticks_of_an_outage: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour without workers leaves a handful of ticks behind, and one line in the log; tasks of others are sent."""
    monkeypatch.setattr(work, "_questions", {})  # there is always something to do
    second = IntervalSchedule.objects.get(every=1, period=IntervalSchedule.SECONDS)
    tick = BeatEntry(PeriodicTask(name="tick", task=task_names.DISPATCH, interval=second, queue="weir.ticks"), app=app)
    other = BeatEntry(PeriodicTask(name="other", task=task_names.DISPATCH, interval=second, queue=QUEUE), app=app)
    assert beats[0].tick() >= 0  # it has the lock
    with capture_logs() as logs:
        for _ in range(MOST_WAITING + 20):
            beats[0].apply_entry(tick)
            beats[0].apply_entry(other)
    assert ticks_of_an_outage.llen("weir.ticks") == MOST_WAITING
    assert ticks_of_an_outage.llen(QUEUE) == MOST_WAITING + 20
    assert [(log["event"], log["queue"]) for log in logs] == [("ticks_are_behind", "weir.ticks")]
    ticks_of_an_outage.delete("weir.ticks", QUEUE)
    beats[0].apply_entry(tick)
    assert ticks_of_an_outage.llen("weir.ticks") == 1


def test_a_standby_takes_over_when_the_lease_is_free(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually
) -> None:
    """A beat that is stopped gives the lease up at once; the other one sends what is due from then on."""
    first, second = beats
    first.tick()
    assert second.tick() == STANDBY
    first.close()
    eventually(lambda: second.tick() >= 0 and sent() > 0, "the standby's message")
    assert len(holders()) == 1


def test_a_standby_takes_over_from_a_process_that_was_killed(
    start_python: StartPython, beats: list[Any], eventually: Eventually, sent: Callable[[], int]
) -> None:
    """The lease ends by itself: no operator has to free it."""
    process = start_python(BEAT)
    assert process.stdout is not None
    assert process.stdout.readline() == "standing by\n"
    assert process.stdout.readline() == "holds the lease\n"
    assert beats[0].tick() == STANDBY
    process.kill()
    process.wait()
    before = sent()
    eventually(lambda: beats[0].tick() >= 0 and sent() > before, "the standby's message")


def start_beat(start_python: StartPython, **environment: str) -> Process:
    """Start a beat, and wait until it holds the lease."""
    process = start_python(BEAT, environment=environment)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["standing by\n", "holds the lease\n"]
    return process


def test_a_standby_takes_over_from_a_process_that_is_frozen(
    start_python: StartPython, beats: list[Any], eventually: Eventually, sent: Callable[[], int]
) -> None:
    """Its connection lives, and it says nothing: within ten seconds another one has the lease."""
    process = start_beat(start_python)
    process.send_signal(signal.SIGSTOP)
    frozen_at, before = time.monotonic(), sent()
    eventually(lambda: beats[0].tick() >= 0 and sent() > before, "the standby's message", seconds=10)
    print(f"the standby ticks {time.monotonic() - frozen_at:.1f} s later")


def test_a_beat_that_is_thawed_stands_by(start_python: StartPython, beats: list[Any], eventually: Eventually) -> None:
    """It finds out that the lease is gone before it sends anything."""
    process = start_beat(start_python)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: beats[0].tick() >= 0 and beats[0]._has_lease, "the standby's lease", seconds=10)
    [held_by] = holders()
    process.send_signal(signal.SIGCONT)
    assert process.stdout
    while process.stdout.readline() != "stands by\n":  # what it said before it was frozen
        pass
    assert holders() == [held_by]


def test_a_standby_takes_over_from_one_that_cannot_reach_the_broker(
    start_python: StartPython, beats: list[Any], eventually: Eventually, sent: Callable[[], int], own_broker: Any
) -> None:
    """The broker does not answer the one that holds the lease: it gives way to one that the broker answers."""
    path = own_broker.connection_pool.connection_kwargs["path"]
    start_beat(start_python, CELERY_BROKER_URL=f"redis+socket://{path}")
    pid = own_broker.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        cut_at = time.monotonic()
        eventually(lambda: beats[0].tick() >= 0 and sent() > 0, "the standby's message", seconds=10)
        print(f"the standby ticks {time.monotonic() - cut_at:.1f} s later")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_beat_takes_the_lease_again_when_the_broker_is_back(
    start_python: StartPython, eventually: Eventually, own_broker: Any
) -> None:
    """Without a standby nobody ticks meanwhile, and the schedule goes on afterwards."""
    path = own_broker.connection_pool.connection_kwargs["path"]
    start_beat(start_python, CELERY_BROKER_URL=f"redis+socket://{path}")
    eventually(lambda: own_broker.llen(QUEUE) > 0, "a message")
    own_broker.replicaof("127.0.0.1", 1)
    eventually(lambda: holders() == [], "the lease to be free")
    own_broker.replicaof("NO", "ONE")
    own_broker.delete(QUEUE)
    eventually(lambda: own_broker.llen(QUEUE) > 0, "a message")


def test_what_could_not_be_sent_is_due_still(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """Also where beat saves the schedule, and reads it again, before the broker is back: as each five minutes."""
    before = timezone.now() - timedelta(days=1)
    PeriodicTask.objects.update(last_run_at=before)
    tried = []

    @contextmanager
    def away() -> Iterator[None]:
        tried.append("to send")
        raise broker_link.BrokerUnreachable("gone")
        yield

    scheduler = LeasedScheduler(app=app)
    eventually(scheduler._holds_lease, "the lease")
    monkeypatch.setattr(broker_link, "producer", away)
    assert (scheduler.tick(), tried) == (STANDBY, ["to send"])
    scheduler.close()
    assert PeriodicTask.objects.values_list("last_run_at", "total_run_count").get() == (before, 0)


def test_a_beat_whose_lease_another_has_knows_that(beats: list[Any], sent: Callable[[], int]) -> None:
    """Two never tick at once: a beat that lost its lease stands by until it gets it again."""
    first, second = beats
    first.tick()
    BeatLease.objects.update(lease_until=Now() - timedelta(seconds=1))
    second.tick()
    assert holders() == [second._holder]
    sent_by_second = sent()  # where the task was due by then
    assert [first.tick() for _ in range(3)] == [STANDBY] * 3
    assert sent() == sent_by_second
    second.close()
    first.tick()
    assert holders() == [first._holder]


def test_a_beat_whose_connection_was_cut_goes_on(beats: list[Any]) -> None:
    """The lease does not depend on the connection."""
    first, second = beats
    first.tick()
    connection.connection.close()
    assert first.tick() == STANDBY
    assert second.tick() == STANDBY
    first.tick()
    assert holders() == [first._holder]


def test_a_lease_of_a_clock_that_was_set_back_has_ended(beats: list[Any]) -> None:
    """Otherwise nobody would tick for an hour, where its holder has died."""
    first, second = beats
    first.tick()
    BeatLease.objects.update(lease_until=Now() + timedelta(hours=1))
    second.tick()
    assert holders() == [second._holder]


def test_a_tick_that_was_held_up_sends_nothing(
    beats: list[Any], sent: Callable[[], int], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, or waiting for the database, between the look at the lock and the sending: another may hold it by now."""
    first, second = beats
    first.tick()
    eventually(lambda: any(entry.is_due().is_due for entry in first.schedule.values()), "the task to be due")
    with monkeypatch.context() as held_up:
        held_up.setattr(beat, "SURE_FOR_S", 0.0)
        assert first.tick() == STANDBY
    assert (sent(), holders()) == (0, [])
    eventually(lambda: second.tick() >= 0 and sent() == 1, "what was not sent")


@needs_own_sessions
def test_a_beat_without_a_database_stands_by(beats: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away is no end of a beat: it goes on when the database is back."""
    first, _ = beats
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        assert first.tick() == STANDBY
    first.tick()
    assert len(holders()) == 1


def test_a_clock_that_was_set_back_does_not_stop_beat(sent: Callable[[], int], eventually: Eventually) -> None:
    """By it, tasks ran last in an hour: they are due an interval from now all the same."""
    PeriodicTask.objects.update(last_run_at=timezone.now() + timedelta(hours=1))
    beat: Any = LeasedScheduler(app=app)
    try:
        eventually(lambda: beat.tick() >= 0 and sent() > 0, "a message", seconds=5)
    finally:
        beat.close()
