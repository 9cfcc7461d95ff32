"""`manage.py sync_schedule` brings the schedule into the database, and leaves an operator's changes alone."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from weir.workers.schedule import SCHEDULE, entries

pytestmark = pytest.mark.django_db

NAMES = {entry.name for entry in entries()}


def sync() -> str:
    output = StringIO()
    call_command("sync_schedule", stdout=output)
    return output.getvalue()


def rows() -> list[dict[str, object]]:
    return list(PeriodicTask.objects.order_by("name").values())


def test_an_empty_database_gets_the_whole_schedule() -> None:
    """Every entry is there as it stands in the code, and the command says how many it created."""
    said = sync()
    stored = {task.name: task for task in PeriodicTask.objects.select_related("interval")}
    assert set(stored) == NAMES
    for entry in entries():
        task = stored[entry.name]
        assert (task.task, task.queue, task.enabled) == (entry.task, entry.queue, not entry.is_new)
        assert json.loads(task.args) == entry.arguments
        assert task.interval.schedule.run_every == entry.every
    assert f"{len(entries())} created, 0 removed" in said


def test_a_second_run_changes_nothing() -> None:
    """Every deployment runs it: nothing is doubled, and beat is not made to start over."""
    sync()
    before = rows()
    assert "0 created, 0 removed" in sync()
    assert rows() == before
    assert IntervalSchedule.objects.count() == len({entry.every for entry in entries()})


def test_what_an_operator_changed_is_kept() -> None:
    """An entry that was slowed down, moved or switched off stays so."""
    sync()
    slower = IntervalSchedule.objects.create(every=77, period=IntervalSchedule.SECONDS)
    name = SCHEDULE[0].name
    PeriodicTask.objects.filter(name=name).update(interval=slower, enabled=False, queue="elsewhere")
    sync()
    task = PeriodicTask.objects.get(name=name)
    assert (task.interval.schedule.run_every, task.enabled, task.queue) == (timedelta(seconds=77), False, "elsewhere")


def test_what_an_operator_added_is_kept() -> None:
    """Entries that are not ours by their name are not touched."""
    minute = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.MINUTES)
    PeriodicTask.objects.create(name="shop: tidy up", task="shop.tasks.tidy_up", interval=minute)
    assert "0 removed" in sync()
    assert PeriodicTask.objects.filter(name="shop: tidy up").exists()


def test_an_entry_that_is_no_longer_in_the_code_is_removed() -> None:
    """A task that was renamed is not sent for ever under its old name."""
    sync()
    second = IntervalSchedule.objects.get(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(name="weir: of an older version", task="weir.workers.tasks.gone", interval=second)
    assert "0 created, 1 removed" in sync()
    assert set(PeriodicTask.objects.values_list("name", flat=True)) == NAMES


def test_an_entry_whose_task_was_renamed_is_made_anew() -> None:
    """Of an older version, whose queue may have another name, too: no worker would take what beat sends."""
    sync()
    entry = SCHEDULE[0]
    PeriodicTask.objects.filter(name=entry.name).update(task="fetches.dispatch", queue="ticks")
    assert "1 created, 1 removed" in sync()
    task = PeriodicTask.objects.get(name=entry.name)
    assert (task.task, task.queue) == (entry.task, entry.queue)


def test_an_entry_that_was_deleted_comes_back() -> None:
    """Dispatch and sweep are not lost by a slip in the admin."""
    sync()
    PeriodicTask.objects.get(name=SCHEDULE[0].name).delete()
    assert "1 created, 0 removed" in sync()
    assert set(PeriodicTask.objects.values_list("name", flat=True)) == NAMES
