"""Keeps the sessions with PostgreSQL of Weir's ticks from task to task, in the workers of Weir's queues.

Celery closes sessions before and after each task. To open a new session takes PostgreSQL as long as many a tick takes,
and the old session's plans and caches are lost. So a process keeps up to MOST_KEPT sessions of ticks that have ended. A
tick takes the session that was used last, whatever thread it runs in, because a pool of threads hands tasks to all of
its threads in turn.

All other sessions are closed as before: sessions of a project's own tasks, which may have set anything in them;
sessions of `fetch_batch`, of which a fetcher runs as many as it has threads; and sessions with other databases.

A session that has not been used for a while is tested before it is used again. A session is closed if a tick had an
error in it or left a transaction open: receivers of Celery's signals, which are a project's own code, run there, too.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg
from celery import current_task
from celery.fixups.django import DjangoFixup
from celery.signals import celeryd_after_setup
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.pq import TransactionStatus

from weir.workers import task_names
from weir.workers.schedule import QUEUES

ASKED_AFTER_S: Final = 1.0
MOST_KEPT: Final = 4  # in each process; a session costs PostgreSQL some megabytes


class _Kept(NamedTuple):
    session: Any  # a psycopg connection, with any type of rows
    used_at: float  # of time.monotonic()


_kept: list[_Kept] = []  # sessions that no tick uses now, the last used at the end. A list's methods are atomic
_thread = threading.local()  # its `tick` is the id of the tick that runs in this thread


def keep_sessions_of_ticks() -> None:
    """Keep sessions in this process, if it becomes a worker that serves a queue of Weir's, and in its children."""
    celeryd_after_setup.connect(_replace_celerys_closing)


def _replace_celerys_closing(instance: Any, **_signal: object) -> None:  # noqa: ANN401  Celery's worker, before it forks
    if set(QUEUES).isdisjoint(instance.app.amqp.queues.consume_from):
        return
    for fixup in instance.app._fixups:  # noqa: SLF001  Celery has no public way to them
        if isinstance(fixup, DjangoFixup):
            of_worker: Any = fixup.worker_fixup
            of_worker.close_database = partial(_close, of_worker.close_database)


def _close(close_all: Callable[[], None], **_signal: object) -> None:
    """Close sessions before and after a task, as Celery does, but give a tick a kept session in between."""
    is_tick = current_task and current_task.name in task_names.TICKS
    if not is_tick:
        close_all()
    elif getattr(_thread, "tick", None) != current_task.request.id:
        _thread.tick = current_task.request.id
        close_all()
        _lend()
    else:
        _thread.tick = None
        _take_back()
        close_all()


def _lend() -> None:
    """Give this thread the session that was used last, if it still works; otherwise Django opens one."""
    database: Any = connections[DEFAULT_DB_ALIAS]
    if database.connection is not None:  # a project may make Celery reuse sessions: CELERY_DB_REUSE_MAX
        return
    try:
        kept = _kept.pop()
    except IndexError:
        return
    if not _works(kept):
        kept.session.close()
        return
    # `connect` does everything that Django does with a new session; only the opening is replaced.
    database.get_new_connection = lambda _parameters: kept.session
    try:
        database.connect()
    finally:
        del database.get_new_connection


def _works(kept: _Kept) -> bool:
    if time.monotonic() >= kept.used_at + ASKED_AFTER_S:
        try:
            kept.session.execute("SELECT 1")
        except psycopg.Error:
            return False
    return True


def _take_back() -> None:
    """Keep this thread's session, if another tick can use it, and fewer than MOST_KEPT sessions are kept."""
    database: Any = connections[DEFAULT_DB_ALIAS]
    session = database.connection
    is_of_pool = database.settings_dict["OPTIONS"].get("pool")  # Django's pool keeps sessions itself
    if session is None or database.errors_occurred or is_of_pool:
        return
    is_between_transactions = session.autocommit and session.pgconn.transaction_status == TransactionStatus.IDLE
    if is_between_transactions and len(_kept) < MOST_KEPT:  # threads at the same time may keep a few more
        database.connection = None
        _kept.append(_Kept(session, time.monotonic()))
