"""Messages of the version before, which wait in queues, are taken by this version; its schedule keeps its ticks."""

import inspect
import json
from typing import Any

import pytest

from project.celery import app
from tests import upgrade_from
from tests.acceptance.upgrade.releases import Release
from weir.workers.schedule import entries

# Printed by a process of the version before: what its tasks take, and what its beat sends.
SHOW = """
import inspect, json
from project.celery import app
from weir.workers.schedule import entries
app.loader.import_default_modules()
print(json.dumps({
    "tasks": {
        name: [p.name for p in inspect.signature(task.run).parameters.values()]
        for name, task in app.tasks.items() if not name.startswith("celery.")
    },
    "schedule": {entry.name: [entry.task, entry.queue, entry.arguments] for entry in entries()},
}))
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the version before says of itself."""
    folder = tmp_path_factory.mktemp("before")
    upgrade_from.check_out(folder)
    before = Release(name="N", folder=folder, servers={})
    assert before.imported() == {folder}
    shown: dict[str, dict[str, Any]] = json.loads(before.python(SHOW))
    assert {task for task, _, _ in shown["schedule"].values()} <= set(shown["tasks"])
    return shown


def refused(parameters: dict[str, inspect.Parameter], theirs: list[str]) -> list[str]:
    """Return what a task with these parameters would not take, of a message by the version before."""
    needed = [name for name, one in parameters.items() if one.default is one.empty and one.kind != one.VAR_KEYWORD]
    return [*(name for name in theirs if name not in parameters), *(name for name in needed if name not in theirs)]


def test_a_message_of_the_version_before_is_taken(theirs: dict[str, dict[str, Any]]) -> None:
    """A task keeps its name and its parameters, in their order; new ones have defaults. So it does for one version."""
    app.loader.import_default_modules()
    assert set(theirs["tasks"]) - set(app.tasks) == set()
    for name, parameters in theirs["tasks"].items():
        ours = inspect.signature(app.tasks[name].run).parameters
        assert refused(dict(ours), parameters) == [], name
        assert [*ours][: len(parameters)] == parameters, name


def test_a_tick_of_the_version_before_is_still_sent(theirs: dict[str, dict[str, Any]]) -> None:
    """`sync_schedule` runs while its workers do: a tick that they need goes one version later."""
    ours = {entry.name: [entry.task, entry.queue, entry.arguments] for entry in entries()}
    assert {name: entry for name, entry in theirs["schedule"].items() if ours.get(name) != entry} == {}


def test_what_a_task_refuses() -> None:
    """A parameter that is gone, and a new one without a default."""

    def task(ids: list[int], why: str, since: int = 0) -> None: ...

    parameters = dict(inspect.signature(task).parameters)
    assert refused(parameters, ["ids", "why"]) == []
    assert refused(parameters, ["ids", "why", "since"]) == []
    assert refused(parameters, ["ids"]) == ["why"]
    assert refused(parameters, ["ids", "why", "until"]) == ["until"]
