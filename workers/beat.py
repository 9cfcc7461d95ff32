"""A scheduler for beat that may run several times: one holds a lock and ticks, the others stand by."""

from typing import Any, Final

import psycopg
import structlog
from celery.beat import ScheduleEntry, SchedulingError
from django.db import connection
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from postgres import sessions
from workers import broker_link, task_names

log = structlog.get_logger(__name__)

LOCK = 0x57656972  # "Weir" in ASCII: the advisory lock of the beat that ticks
STANDBY = 1.0  # seconds between two attempts of a standby to get the lock
# PostgreSQL ends the session of a beat that says nothing for so long, and frees the lock: a beat speaks once a second.
SILENT_FOR: Final = "6s"


class Entry(ModelEntry):  # type: ignore[misc]  # as below
    """A task of the schedule. Beat saves after each message when it was sent, and does nothing else meanwhile."""

    def save(self) -> None:
        """Save that in one round trip. Far from PostgreSQL, several for each message take longer than beat has."""
        sent = {"last_run_at": self.model.last_run_at, "total_run_count": self.model.total_run_count}
        PeriodicTask.objects.filter(pk=self.model.pk).update(**sent)


class LockedScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat ships no types
    """django-celery-beat's scheduler behind a PostgreSQL advisory lock on a connection of its own.

    The lock lasts as long as the connection: when the process or its host dies, is frozen or cut off from PostgreSQL,
    a standby gets it within ten seconds. A beat that cannot reach the broker gives the lock up, and takes it again
    when it can.
    """

    Entry = Entry
    producer = None  # Celery's would wait for the broker for ever, with the lock: `apply_entry` brings its own
    _lock: psycopg.Connection[Any] | None = None
    _is_cut_off = False

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the tasks that are due, if this beat holds the lock; returns the seconds until the next tick."""
        try:
            if not self._holds_lock():
                return STANDBY
            interval: float = super().tick(*args, **kwargs)
        except broker_link.Unreachable as error:
            self._give_way(error)
            return STANDBY
        return interval

    def apply_entry(self, entry: ScheduleEntry, producer: None = None) -> None:  # noqa: ARG002  Celery's signature
        """Send a task that is due; raises Unreachable where the broker is."""
        with broker_link.producer() as own:
            try:
                self.apply_async(entry, producer=own, advance=False)
            except SchedulingError as error:
                if isinstance(error.__context__, broker_link.errors()):
                    raise error.__context__ from None
                log.exception("beat_cannot_send", task=entry.task)

    def close(self) -> None:
        """Close the scheduler, and its connection, which frees the lock."""
        super().close()
        self._free_lock()

    def _give_way(self, error: broker_link.Unreachable) -> None:
        if not self._is_cut_off:
            log.warning("beat_waits_for_broker", error=str(error))
        self._is_cut_off = True
        self._free_lock()
        self._heap = None  # the entry that was not sent is missing in it

    def _free_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _holds_lock(self) -> bool:
        try:
            if self._lock is not None:
                self._lock.execute("SELECT 1")
                return True
            return self._take_lock()
        except psycopg.Error as error:
            log.warning("beat_lost_lock", error=str(error))
            self._free_lock()
            return False

    def _take_lock(self) -> bool:
        broker_link.waiting(task_names.DISPATCH)  # raises Unreachable: who cannot send leaves the lock to others
        parameters = connection.get_connection_params()
        parameters.pop("cursor_factory", None)
        parameters.pop("context", None)
        candidate = psycopg.connect(**parameters, autocommit=True)
        sessions.configure(candidate)
        candidate.execute("SELECT set_config('idle_session_timeout', %s, false)", [SILENT_FOR])
        row = candidate.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        if row is None or not row[0]:
            candidate.close()
            return False
        log.info("beat_holds_lock")
        self._lock, self._is_cut_off = candidate, False
        return True
