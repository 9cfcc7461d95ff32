"""The beat schedule names only what exists: registered tasks, queues that a worker consumes."""

import inspect
import re
from datetime import timedelta

import pytest

from project.celery import app
from project.checkout import CHECKOUT
from weir.workers import task_names
from weir.workers.schedule import QUEUES, ScheduleEntry, queues
from weir.workers.schedule import entries as all_entries

entries = pytest.mark.parametrize("entry", all_entries(), ids=lambda entry: entry.name)


@pytest.fixture(scope="module", autouse=True)
def registered_tasks() -> None:
    """Import the tasks as a worker does."""
    app.loader.import_default_modules()


def consumed_queues() -> set[str]:
    """Return the queues of the workers that the Procfile starts."""
    lists = re.findall(r" --queues (\S+)", (CHECKOUT / "Procfile").read_text())
    return {queue for queues in lists for queue in queues.split(",")}


@entries
def test_every_entry_names_a_registered_task(entry: ScheduleEntry) -> None:
    """A task that was renamed would be sent for ever and never run."""
    assert entry.task in app.tasks


@entries
def test_every_entry_calls_its_task_with_arguments_that_fit(entry: ScheduleEntry) -> None:
    """A missing or an extra argument would make every call fail."""
    inspect.signature(app.tasks[entry.task].run).bind(*entry.arguments)


@entries
def test_every_entry_goes_to_a_queue_that_is_consumed(entry: ScheduleEntry) -> None:
    """A message in a queue without a worker waits for ever."""
    assert entry.queue in consumed_queues()


def test_every_queue_proves_by_a_heartbeat_that_it_is_consumed() -> None:
    """Each queue of the workers has its heartbeat, sent through that very queue."""
    heartbeats = {entry.queue: entry.arguments for entry in all_entries() if entry.task == task_names.HEARTBEAT}
    assert heartbeats == {queue: [queue] for queue in consumed_queues()}
    assert set(queues()) == consumed_queues()


@entries
def test_intervals_are_whole_seconds(entry: ScheduleEntry) -> None:
    """The database keeps intervals in whole seconds, so that anything else would be rounded silently."""
    assert entry.every >= timedelta(seconds=1)
    assert entry.every % timedelta(seconds=1) == timedelta(0)


def test_names_are_unique_and_marked_as_ours() -> None:
    """`sync_schedule` knows its own entries by name."""
    names = [entry.name for entry in all_entries()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("weir: ") for name in names)


def test_tasks_and_queues_have_names_of_weirs_and_leave_no_results() -> None:
    """A queue `mail` and a task `api.purge` are a project's own, and so is what keeps its results."""
    ours = {name: task for name, task in app.tasks.items() if task.__module__.startswith("weir.")}
    assert set(ours) == task_names.OF_WEIR
    assert [name for name in [*ours, *QUEUES] if not name.startswith("weir.")] == []
    assert [name for name, task in ours.items() if not task.ignore_result] == []


def test_what_keeps_the_queue_moving_comes_every_few_seconds() -> None:
    """A wake-up or a message that was lost costs seconds, because dispatch and sweep come that often."""
    every = {entry.task: entry.every for entry in all_entries()}
    assert every[task_names.DISPATCH] <= timedelta(seconds=2)
    assert every[task_names.SWEEP] <= timedelta(seconds=5)
