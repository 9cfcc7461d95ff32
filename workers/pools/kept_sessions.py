"""Which sessions with PostgreSQL outlive a task: those of Weir's ticks, in the workers of its queues.

Celery closes a session before and after each task. To open another takes PostgreSQL as long as many a tick; plans, and
what it knows of tables, are lost with the old one. So the session of a thread, or of a process of a pool, goes from a
tick to the next. All others are closed as ever: those of a project's own tasks, of which nobody knows what they have
set, and those of `fetch_batch`, of which a fetcher runs as many as it has threads.

In a pool of threads the first MOST_THREADS that have a tick keep one. A pool that does little has few threads. Once it
has had work for all of them, it hands ticks to each in turn, and most ticks open a session of their own again.

A session is asked whether it still works, where it has not been used for a while, and is closed where a tick has met
an error.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from celery import current_task
from celery.fixups.django import DjangoFixup
from celery.signals import celeryd_after_setup
from django.db import DEFAULT_DB_ALIAS, connections

from weir.workers import task_names
from weir.workers.schedule import QUEUES

ASKED_AFTER_S: Final = 1.0
MOST_THREADS: Final = 4  # of a process, which keep one: each costs PostgreSQL some megabytes

_thread = threading.local()  # used_at: before or after which tick its session was last, of time.monotonic()
_keepers: set[int] = set()  # the threads of this process that keep a session


def keep_sessions_of_ticks() -> None:
    """Have sessions kept in this process, if it becomes a worker that serves a queue of Weir's, and in its children."""
    celeryd_after_setup.connect(_replace_celerys_closing)


def _replace_celerys_closing(instance: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker, before it forks
    if set(QUEUES).isdisjoint(instance.app.amqp.queues.consume_from):
        return
    for fixup in instance.app._fixups:  # noqa: SLF001  nothing else leads to them
        if isinstance(fixup, DjangoFixup):
            of_worker: Any = fixup.worker_fixup
            of_worker.close_database = partial(_close, of_worker.close_database)


def _close(close_all: Callable[[], None], **_signal: object) -> None:
    """Close what Celery would, before and after a task, but for the session of a tick that still works."""
    if not current_task or current_task.name not in task_names.TICKS:
        close_all()
    elif not (_may_keep() and _can_go_on()):
        connections[DEFAULT_DB_ALIAS].close()


def _may_keep() -> bool:
    """Tell whether this thread is one of the first that had a tick. Threads that ask at once may be a few more."""
    me = threading.get_ident()
    if me not in _keepers and len(_keepers) < MOST_THREADS:
        _keepers.add(me)
    return me in _keepers


def _can_go_on() -> bool:
    """Tell whether the session may serve the next tick; asks PostgreSQL where it has not been used for a while."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.connection is None:
        return True  # there is nothing to close
    used_at, _thread.used_at = getattr(_thread, "used_at", 0.0), time.monotonic()
    if connection.errors_occurred or connection.settings_dict["OPTIONS"].get("pool"):  # Django's pool keeps them itself
        return False
    return time.monotonic() < used_at + ASKED_AFTER_S or connection.is_usable()
