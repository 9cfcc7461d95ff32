"""Handles messages in a test: messages to Weir's own workers are dropped, and users' tasks are run.

A task is run as a worker would run it, but in this process, and immediately. The callbacks that the task leaves to
`on_commit` are called when it ends: in a `TestCase` nothing is committed, so they would otherwise never be called.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from django.db import DEFAULT_DB_ALIAS, connections
from django.test import TestCase

from weir.postgres import own_commits
from weir.workers import publish, task_names

# By the task that would wake a mailer: the last one is called instead.
_deliverers: dict[str, list[Callable[[], None]]] = {task_names.SEND_EMAILS: [], task_names.PERFORM_EFFECTS: []}


def taken() -> AbstractContextManager[None]:
    """Handle here the messages that this process sends while the block lasts."""
    return publish.taken_by(_take)


def emails_delivered_by(deliver: Callable[[], None]) -> AbstractContextManager[None]:
    """Within the block, call `deliver` when a mailer would be woken."""
    return _called_for(task_names.SEND_EMAILS, deliver)


def effects_performed_by(perform: Callable[[], None]) -> AbstractContextManager[None]:
    """Within the block, call `perform` when a mailer would be told of an effect."""
    return _called_for(task_names.PERFORM_EFFECTS, perform)


@contextmanager
def _called_for(task_name: str, deliver: Callable[[], None]) -> Iterator[None]:
    _deliverers[task_name].append(deliver)
    try:
        yield
    finally:
        _deliverers[task_name].remove(deliver)


def _take(task_name: str, arguments: Sequence[object], options: Mapping[str, object]) -> None:
    if deliverers := _deliverers.get(task_name):
        deliverers[-1]()
    elif task_name not in task_names.OF_WEIR:
        with _committed_at_its_end():
            publish.run_here(task_name, arguments, options, throw=True)


@contextmanager
def _committed_at_its_end() -> Iterator[None]:
    """At the end of the block, call the callbacks that it leaves to `on_commit`, unless a caller's transaction will."""
    if own_commits.is_in_transaction():
        yield
        return
    callbacks = connections[DEFAULT_DB_ALIAS].run_on_commit
    before = len(callbacks)
    with TestCase.captureOnCommitCallbacks(execute=True):
        yield
    del callbacks[before:]  # otherwise the test's own `captureOnCommitCallbacks` would call them a second time
