"""A scheduler for beat that may run several times: one holds a lock and ticks, the others stand by."""

from typing import Any

import psycopg
import structlog
from django.db import connection
from django_celery_beat.schedulers import DatabaseScheduler

from postgres import sessions

log = structlog.get_logger(__name__)

LOCK = 0x57656972  # "Weir" in ASCII: the advisory lock of the beat that ticks
STANDBY = 1.0  # seconds between two attempts of a standby to get the lock


class LockedScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat ships no types
    """django-celery-beat's scheduler behind a PostgreSQL advisory lock on a connection of its own.

    The lock lasts as long as the connection: when the process or its host dies, a standby gets it.
    """

    _lock: psycopg.Connection[Any] | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the tasks that are due, if this beat holds the lock; returns the seconds until the next tick."""
        if not self._holds_lock():
            return STANDBY
        interval: float = super().tick(*args, **kwargs)
        return interval

    def close(self) -> None:
        """Close the scheduler, and its connection, which frees the lock."""
        super().close()
        if self._lock is not None:
            self._lock.close()

    def _holds_lock(self) -> bool:
        try:
            if self._lock is not None:
                self._lock.execute("SELECT 1")
                return True
            return self._take_lock()
        except psycopg.Error as error:
            log.warning("beat_lost_lock", error=str(error))
            if self._lock is not None:
                self._lock.close()
                self._lock = None
            return False

    def _take_lock(self) -> bool:
        parameters = connection.get_connection_params()
        parameters.pop("cursor_factory", None)
        parameters.pop("context", None)
        candidate = psycopg.connect(**parameters, autocommit=True)
        sessions.configure(candidate)
        row = candidate.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        if row is None or not row[0]:
            candidate.close()
            return False
        log.info("beat_holds_lock")
        self._lock = candidate
        return True
