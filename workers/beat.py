"""Beat that may run many times: the scheduler that holds the lock ticks, the others stand by."""

from typing import Any

import psycopg
import structlog
from django.db import connection
from django_celery_beat.schedulers import DatabaseScheduler

log = structlog.get_logger(__name__)

LOCK = 0x57656972  # "Weir": the advisory lock of the one beat that ticks
STANDBY = 1.0  # seconds between two tries of a standby


class LockedScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat ships no types
    """django-celery-beat's scheduler behind a PostgreSQL advisory lock on a connection of its own.

    The lock goes with the connection: when the host or process dies, PostgreSQL gives it to a standby.
    """

    _lock: psycopg.Connection[Any] | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Run what is due if this beat holds the lock; returns the seconds until the next look."""
        if not self._holds_lock():
            return STANDBY
        interval: float = super().tick(*args, **kwargs)
        return interval

    def close(self) -> None:
        """Give the lock up."""
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
        row = candidate.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        if row is None or not row[0]:
            candidate.close()
            return False
        log.info("beat_holds_lock")
        self._lock = candidate
        return True
