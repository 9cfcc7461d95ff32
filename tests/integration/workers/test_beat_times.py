"""When a task was sent last is known to every beat, whatever clocks do: none is sent twice, or waited for in vain."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery.beat import SchedulingError
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from structlog.testing import capture_logs

from project.celery import app
from tests.integration.conftest import Eventually, database_now
from tests.integration.workers.conftest import QUEUE
from weir.workers import task_names
from weir.workers.beat import entries
from weir.workers.beat import scheduler as beat
from weir.workers.beat.scheduler import STANDBY, LeasedScheduler
from weir.workers.processes.status import processes

pytestmark = pytest.mark.django_db(transaction=True)

HOURS = timedelta(hours=6)


@pytest.fixture
def start_beat() -> Iterator[Callable[[], Any]]:
    """Return what makes a scheduler, as a process of its own would have it."""
    made: list[Any] = []

    def start() -> Any:
        made.append(LeasedScheduler(app=app))
        return made[-1]

    yield start
    for scheduler in made:
        scheduler.close()
    entries.clock.set(timezone.now())


def every(seconds: int, *, ago: timedelta = timedelta(0), **fields: object) -> PeriodicTask:
    """Return a task of this interval, which ran last so long ago."""
    interval = IntervalSchedule.objects.create(every=seconds, period=IntervalSchedule.SECONDS)
    given = {"name": "test", "task": task_names.HEARTBEAT, "queue": QUEUE, "args": '["default"]', **fields}
    return PeriodicTask.objects.create(interval=interval, last_run_at=timezone.now() - ago, **given)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Return what sets the clock of PostgreSQL's host, of which the lease is told; the lease itself stays right."""
    wrong_by, take = [timedelta()], beat.TAKE_BEAT

    def told(**parameters: Any) -> Any:
        return [row._replace(now=row.now + wrong_by[0]) for row in take(**parameters)]

    monkeypatch.setattr(beat, "TAKE_BEAT", told)

    def step(by: timedelta) -> None:
        wrong_by[0] = by

    return step


def test_who_takes_over_knows_what_was_sent(start_beat: Callable[[], Any], sent: Callable[[], int]) -> None:
    """It has read the schedule long ago."""
    every(3600, ago=timedelta(hours=2))
    first, second = start_beat(), start_beat()
    first.tick()
    assert (second.tick(), sent()) == (STANDBY, 1)
    first.close()
    second.tick()
    assert (second._has_lease, sent()) == (True, 1)


def test_who_takes_the_lease_again_knows_what_it_has_sent(
    start_beat: Callable[[], Any], sent: Callable[[], int]
) -> None:
    """All that is due is looked for anew, and what was sent is not."""
    every(3600, ago=timedelta(hours=2))
    scheduler = start_beat()
    scheduler.tick()
    scheduler._give_up()
    scheduler.tick()
    assert (scheduler._has_lease, sent()) == (True, 1)


def test_what_could_not_be_saved_is_saved_later(
    start_beat: Callable[[], Any], sent: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL went away between the message and the note that it was sent."""
    every(3600, ago=timedelta(hours=2))
    scheduler = start_beat()

    def away(_entry: object) -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as outage:
        outage.setattr(LeasedScheduler.Entry, "save", away)
        scheduler.tick()
    scheduler._give_up()
    scheduler.tick()
    assert sent() == 1
    assert PeriodicTask.objects.get().total_run_count == 1


def test_a_database_that_goes_before_the_schedule_is_read_ends_no_beat(
    start_beat: Callable[[], Any], sent: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has just taken the lease, after which it reads the schedule; and goes on when it can."""
    every(3600, ago=timedelta(hours=2))
    scheduler = start_beat()

    def away() -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as outage:
        outage.setattr(scheduler, "enabled_models", away)
        assert (scheduler.tick(), scheduler._has_lease) == (STANDBY, False)
    scheduler.tick()
    assert (scheduler._has_lease, sent()) == (True, 1)


def test_what_another_beat_has_sent_since_is_not_overwritten(start_beat: Callable[[], Any]) -> None:
    """One that could not save, and has lost its lease meanwhile, knows an older time."""
    every(3600)
    scheduler = start_beat()
    scheduler.tick()
    later = database_now() - timedelta(seconds=1)
    [entry] = scheduler.schedule.values()
    entry.ran_at(later - timedelta(minutes=1))
    PeriodicTask.objects.update(last_run_at=later, total_run_count=7)
    entry.save()
    assert PeriodicTask.objects.values_list("last_run_at", "total_run_count").get() == (later, 7)


def test_a_clock_that_is_set_back_is_seen_in_what_was_just_sent(
    start_beat: Callable[[], Any], sent: Callable[[], int], steps: Callable[[timedelta], None], eventually: Eventually
) -> None:
    """What is in hand, and not what was read: a beat whose database's host was ahead goes on at once."""
    every(1)
    scheduler = start_beat()
    steps(HOURS)
    eventually(lambda: scheduler.tick() >= 0 and sent() > 0, "a message")
    steps(timedelta(0))
    before = sent()
    with capture_logs() as logs:
        eventually(lambda: scheduler.tick() >= 0 and sent() > before, "another message", seconds=5)
    assert "beat_clock_set_back" in [log["event"] for log in logs]
    assert PeriodicTask.objects.get().last_run_at < database_now() + timedelta(seconds=1)


def test_a_time_to_come_is_corrected_where_it_was_read(start_beat: Callable[[], Any]) -> None:
    """Otherwise it would be read again each five minutes, and the task never be due."""
    every(3600, ago=-HOURS)
    scheduler = start_beat()
    scheduler.tick()
    scheduler.close()
    assert PeriodicTask.objects.get().last_run_at < database_now() + timedelta(seconds=1)


@pytest.mark.parametrize("kind", ["interval", "crontab"])
def test_what_is_due_goes_by_the_clock_of_the_database(
    kind: str, start_beat: Callable[[], Any], sent: Callable[[], int], steps: Callable[[timedelta], None]
) -> None:
    task = every(3600)
    if kind == "crontab":
        hour = (timezone.now() + HOURS / 2).hour
        task.interval, task.crontab = None, CrontabSchedule.objects.create(minute=0, hour=hour, timezone="UTC")
        task.save()
    scheduler = start_beat()
    scheduler.tick()
    assert sent() == 0
    steps(HOURS)
    scheduler.tick()
    assert sent() == 1


def test_a_message_expires_by_the_clock_of_the_database(
    start_beat: Callable[[], Any], sent: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers compare that with their own host's."""
    every(3600, ago=timedelta(hours=2), expire_seconds=60)
    monkeypatch.setattr(app, "now", lambda: timezone.now() - HOURS)
    start_beat().tick()
    assert sent() == 1
    with redis.from_url(settings.REDIS_URL) as broker:
        expires = datetime.fromisoformat(json.loads(broker.lindex(QUEUE, 0))["headers"]["expires"])
    assert abs(expires - database_now() - timedelta(seconds=60)) < timedelta(seconds=5)


def test_the_schedule_has_all_hours(start_beat: Callable[[], Any]) -> None:
    """django-celery-beat leaves out what is due at other hours than it is by this host's clock."""
    far = next(hour for hours in (8, 12) if (hour := (timezone.now().hour + hours) % 24) != 4)  # 4 is never left out
    crontab = CrontabSchedule.objects.create(hour=far, timezone="UTC")
    PeriodicTask.objects.create(name="far", task=task_names.HEARTBEAT, crontab=crontab)
    assert [*start_beat().schedule] == ["far"]


def test_a_change_by_a_web_process_whose_clock_is_behind_is_seen(
    start_beat: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the last change is written by the process that changes something."""
    from django_celery_beat import models  # noqa: PLC0415  whose clock is wrong below

    task = every(3600)
    task.save()
    scheduler = start_beat()
    scheduler.tick()
    monkeypatch.setattr(models, "now", lambda: timezone.now() - HOURS)
    task.name = "renamed"
    task.save()
    scheduler.tick()
    assert [*scheduler.schedule] == ["renamed"]


def test_a_beat_that_sends_nothing_leaves_the_lease_and_is_not_well(
    start_beat: Callable[[], Any], sent: Callable[[], int], monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Whatever the reason. Another takes over; and who watches sees no turn of this one, until it sends."""
    every(1, ago=timedelta(seconds=5))
    first, second = start_beat(), start_beat()
    first.tick()
    assert sent() == 1
    monkeypatch.setattr(beat, "SENDS_WITHIN_S", 0.2)
    [known] = processes()
    first._presence._noted_at = float("-inf")
    with monkeypatch.context() as broken, capture_logs() as logs:
        broken.setattr(first, "is_due", lambda _entry: (False, 0.1))
        eventually(lambda: first.tick() == 2 * STANDBY, "the lease to be given up")
        eventually(lambda: second.tick() >= 0 and sent() > 1, "the other's message")
        turned_at = next(process.turned_at for process in processes() if process.id == known.id)
        first._presence._noted_at = float("-inf")
        assert first.tick() == STANDBY
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["beat_sends_nothing"]
    assert next(process.turned_at for process in processes() if process.id == known.id) == turned_at
    second.close()
    before = sent()
    eventually(lambda: first.tick() >= 0 and sent() > before, "its own message")
    first.tick()
    assert next(process.turned_at for process in processes() if process.id == known.id) > turned_at


def test_a_beat_that_cannot_send_is_not_well(start_beat: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is refused before it gets to the broker."""
    every(1, ago=timedelta(seconds=5))
    scheduler = start_beat()
    assert scheduler._holds_lease()
    scheduler._got_on_at = 0.0  # long ago

    def refused(*_arguments: object, **_options: object) -> None:
        raise SchedulingError("no such serializer")

    monkeypatch.setattr(scheduler, "apply_async", refused)
    assert scheduler.tick() == 2 * STANDBY


def test_a_beat_without_a_short_task_is_well(start_beat: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is due for an hour, and one of each second begins only then."""
    every(3600)
    every(1, name="later", start_time=timezone.now() + timedelta(hours=1))
    monkeypatch.setattr(beat, "SENDS_WITHIN_S", -1.0)  # no time at all beyond an interval of a second
    scheduler = start_beat()
    assert [scheduler.tick() for _ in range(3)] == [pytest.approx(1, abs=0.5)] * 3
    assert scheduler._has_lease
