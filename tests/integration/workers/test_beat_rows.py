"""A row of the schedule that cannot be used holds up no other: staff may write any, and programs past all forms."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from structlog.testing import capture_logs

from project.celery import app
from tests.integration.workers.conftest import QUEUE
from weir.workers import task_names
from weir.workers.beat import entries
from weir.workers.beat.scheduler import LeasedScheduler

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 20


@pytest.fixture
def scheduler() -> Iterator[Any]:
    made = LeasedScheduler(app=app)
    yield made
    made.close()
    entries.clock.set(timezone.now())


def every(number: int, period: str) -> dict[str, object]:
    return {"interval": IntervalSchedule.objects.create(every=number, period=period)}


def at(**of_crontab: str) -> dict[str, object]:
    return {"crontab": CrontabSchedule.objects.create(**of_crontab)}


UNUSABLE: dict[str, Callable[[], dict[str, object]]] = {
    "an interval beyond what Python counts": lambda: every(2_000_000_000, "days"),
    "an interval that ends after the year 9999": lambda: every(3_000_000, "days"),
    "a day that its month has not": lambda: at(minute="0", hour="0", day_of_month="31", month_of_year="2"),
    "an hour that no day has": lambda: at(minute="0", hour="25"),
    "words that are no time": lambda: at(minute="often"),
    "headers that are no JSON": lambda: {**every(1, "seconds"), "headers": "{"},
    "no schedule": dict,
}


@pytest.mark.parametrize("row", UNUSABLE)
def test_a_row_that_cannot_be_used_holds_up_no_other(
    row: str, scheduler: LeasedScheduler, sent: Callable[[], int]
) -> None:
    """All others are sent as before; the log says which is not, when the schedule is read, and not in each turn."""
    given = {"task": task_names.HEARTBEAT, "queue": QUEUE, "args": '["default"]'}
    ago = timezone.now() - timedelta(hours=2)
    PeriodicTask.objects.bulk_create([PeriodicTask(name="unusable", last_run_at=ago, **given, **UNUSABLE[row]())])
    PeriodicTask.objects.create(name="usable", last_run_at=ago, **given, **every(1, "hours"))
    with capture_logs() as logs:
        for _ in range(2):
            scheduler.tick()
    assert (scheduler._has_lease, sent()) == (True, 1)
    assert {line["task"] for line in logs if line["event"] == "beat_cannot_use"} == {"unusable"}
    with capture_logs() as logs:
        for _ in range(3):
            scheduler.tick()
    assert logs == []


def test_a_message_costs_no_look_at_all_other_rows(
    scheduler: LeasedScheduler, sent: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may have thousands: when each is due is computed when the schedule is read, and when it is sent."""
    looks: list[str] = []
    asked = entries.BeatEntry.is_due

    def counted(entry: entries.BeatEntry) -> Any:
        looks.append(entry.name)
        return asked(entry)

    monkeypatch.setattr(entries.BeatEntry, "is_due", counted)
    hourly = every(1, "hours")
    given = {"task": task_names.HEARTBEAT, "queue": QUEUE, "args": '["default"]', **hourly}
    ago = timezone.now() - timedelta(hours=2)
    PeriodicTask.objects.bulk_create([PeriodicTask(name=f"{n}", last_run_at=ago, **given) for n in range(MANY)])
    while sent() < MANY:  # a slow machine does not send all in one turn
        scheduler.tick()
    assert sent() == MANY
    assert len(looks) <= 3 * MANY
