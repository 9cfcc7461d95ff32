"""Configures sessions with PostgreSQL in a user's project: the sessions of Weir's work, and no others.

In Weir's own `project`, all sessions are configured (`project.apps`). In a user's project, a worker that serves queues
of Weir's may also run the project's own tasks, and the project chooses the time limits of these tasks. So there:

1. A session that is opened in such a worker, or in beat, is configured, and its previous settings are recorded.
2. When a task of the project's own begins in the session's thread, the session gets its previous settings back, and so
   does a session that a pool hands to that thread.
3. When a task of Weir's begins in the thread, the session is configured again.

libpq options make all sessions of such a process give up a silent server.

The effect is that a statement that hangs, or a transaction that is left open, holds a worker and its locks for
WEIR_STATEMENT_TIMEOUT at most, and that a server or a client that has vanished is noticed within seconds. Weir's
promises (counted, paced, sent once) do not depend on these limits, but on leases and locks. In web code and in
commands, Weir's statements have the limits of the project's session.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from celery.signals import celeryd_after_setup, task_prerun
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created

from weir.conf import settings
from weir.postgres import sessions
from weir.workers import task_names
from weir.workers.schedule import QUEUES

_ID: Final = "weir.workers.own_sessions"
_thread = threading.local()
_before: WeakKeyDictionary[psycopg.Connection[Any], Mapping[str, str]] = WeakKeyDictionary()


def configure_own_sessions() -> None:
    """Configure the sessions of this process, if it becomes a worker that serves a queue of Weir's."""
    celeryd_after_setup.connect(_begin_worker, dispatch_uid=_ID)


def _begin_worker(instance: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker; its children inherit this
    if not set(QUEUES).isdisjoint(instance.app.amqp.queues.consume_from):
        begin()


def begin(**_signal: object) -> None:
    """Configure the sessions that this process opens from now on. A second call has no effect."""
    _notice_silence(connections.settings[DEFAULT_DB_ALIAS]["OPTIONS"])
    if not settings.WEIR_TRANSACTION_POOLING:
        connection_created.connect(_opened, dispatch_uid=_ID)
        task_prerun.connect(_change_hands, dispatch_uid=_ID)


def _notice_silence(options: dict[str, Any]) -> None:
    """Make libpq give up a silent server, unless the project's settings have limits of their own for that.

    A session that is kept from tick to tick, or by beat, may outlive its server. Without such a limit, it would wait
    for the server for a quarter of an hour, as TCP does, and so would all tasks of the same serial queue.
    """
    if options.keys().isdisjoint(sessions.CLIENT):
        options.update(sessions.CLIENT)


def _opened(connection: Any, **_signal: object) -> None:  # noqa: ANN401  one of Django's backends
    if connection.alias == DEFAULT_DB_ALIAS:
        with connection.wrap_database_errors:
            _fit(connection.connection)


def _change_hands(task: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's own have no types
    _thread.is_of_project = task.name not in task_names.OF_WEIR
    session = connections[DEFAULT_DB_ALIAS].connection
    if session is not None:
        with suppress(psycopg.Error):  # the session is lost: Django opens another
            _fit(session)


def _fit(session: "psycopg.Connection[Any]") -> None:
    """Give the session the settings that the work of this thread needs."""
    if not getattr(_thread, "is_of_project", False):
        if session not in _before:
            _before[session] = sessions.values_of(session)
            sessions.configure(session)
    elif (before := _before.pop(session, None)) is not None:
        sessions.set_values(session, before)
