"""A scheduler for several beats: one of them holds a lease and sends tasks, the others stand by.

PostgreSQL's clock decides what is due. It is read with each renewal of the lease, so steps of this host's clock do not
matter.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

from celery.beat import ScheduleEntry, SchedulingError
from celery.schedules import schedule
from django.db import Error, connection
from django.db.models import Q, QuerySet
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from weir.logs.loggers import get_logger
from weir.postgres import sessions
from weir.postgres.statements import Statement
from weir.workers import broker_link, task_names, ticks
from weir.workers.beat import entries, rows, work
from weir.workers.beat.signals import beat_begins
from weir.workers.processes import presence
from weir.workers.processes.kinds import BEAT
from weir.workers.schedule import NEW

log = get_logger(__name__)

STANDBY = 1.0  # seconds between two attempts of a standby to get the lease
CLOCK_TOLERANCE: Final = timedelta(seconds=1)  # how far another host's clock may be ahead of PostgreSQL's
LEASE_S: Final = 6.0
RENEWED_EVERY_S: Final = 0.9  # the first turn after this time renews it: once a second, because turns come that often
SURE_FOR_S: Final = 5.0  # how long after its request for the lease a beat can be sure to hold it
TURN_S: Final = 1.0  # how long a beat sends due tasks before it checks the lease again
SHORTEST_WAIT_S: Final = 0.1  # between two turns of a beat that has sent all due tasks; later ones are sent together
READ_EVERY_S: Final = 300.0  # the schedule is read at least this often
SENDS_WITHIN_S: Final = 5.0  # how late a task may be sent; then a beat leaves the lease to another


class _MayBeLost(Exception):
    """Another beat may hold the lease by now."""


class _Taken(NamedTuple):
    """When the lease was taken or renewed, on PostgreSQL's clock, and when the schedule was last changed."""

    now: datetime
    changed_at: datetime | None  # on the clock of the process that changed it


GIVE_BEAT = Statement("give_beat", commits=True)
TAKE_BEAT = Statement("take_beat", row=_Taken, commits=True, prepare=True)


class LeasedScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat ships no types
    """django-celery-beat's scheduler behind a lease, which is one row in PostgreSQL.

    If the holder's process or host dies, is frozen or cut off from PostgreSQL, a standby gets the lease within ten
    seconds. A beat that ends, or cannot reach the broker, gives up the lease immediately. After an outage of the
    broker, any beat that can reach it again may take the lease.
    """

    Entry = entries.BeatEntry
    producer = None  # Celery's would wait for the broker forever and keep the lease; `_send` has its own
    _has_lease = False
    _is_cut_off = False
    _is_stuck = False  # it sent nothing while it had the lease, and has sent nothing since
    # Times of time.monotonic():
    _renewed_at = 0.0  # the last attempt to take or renew the lease
    _sure_until = 0.0
    _read_at = -math.inf  # the last reading of the schedule
    _got_on_at = 0.0  # when it last sent a task, skipped one as needless, or took the lease
    _shortest_s = math.inf  # the shortest interval of the schedule

    def __init__(self, *args: Any, name: str = "", each_tick: Callable[[], None] = lambda: None, **kwargs: Any) -> None:
        """Begin as a standby. `name` is for the table of processes; the default is the name of a process of beat."""
        self._each_tick = each_tick
        beat_begins.send(type(self), app=args[0] if args else kwargs["app"])
        self._holder = uuid4()
        self._full: set[str] = set()  # queues in which too many ticks wait for a worker
        self._sent_ticks = work.SentTicks()
        self._changed_at: datetime | None = None  # the last change of the schedule, as the last renewal told it
        self._changed_when_read: datetime | None = None  # `_changed_at` when the schedule was last read
        name = name or f"{os.environ.get('HONCHO_PROCESS_NAME') or BEAT}@{presence.host()}"
        self._presence = presence.Presence(kind=BEAT, name=name)
        super().__init__(*args, **kwargs)
        self.max_interval, self.sync_every_tasks = STANDBY, 1

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send all tasks that are due, if this beat holds the lease; return the seconds until the next tick.

        Celery's tick sends only one task. A check of the lease and of the schedule before each task would take a beat
        that is far from PostgreSQL too long.
        """
        self._each_tick()
        if not self._is_stuck:
            self._presence.show_life()
            self._presence.heartbeat(holds=int(self._has_lease))
        try:
            if not self._holds_lease():
                return STANDBY
            self._forget_the_future()
            interval, ends_at = 0.0, time.monotonic() + TURN_S
            while not interval and time.monotonic() < ends_at:
                interval = super().tick(*args, **kwargs)
            if not self._has_sent_lately():
                return 2 * STANDBY  # so that a standby gets the lease first
        except broker_link.BrokerUnreachable as error:
            self._give_way(error)
            return STANDBY
        except Error as error:
            self._lose(error)
            return STANDBY
        except _MayBeLost:
            log.warning("beat_lost_lease", error="a tick was held up, by the database or the machine")
            self._give_up()
            return STANDBY
        return interval and max(interval, SHORTEST_WAIT_S)

    def schedule_changed(self) -> bool:
        """Return whether a renewal of the lease has told a change of the schedule, or the last reading is too old."""
        return self._changed_at != self._changed_when_read or time.monotonic() > self._read_at + READ_EVERY_S

    def setup_schedule(self) -> None:
        """Make rows of the project's `beat_schedule`, and delete the rows of entries that it no longer has."""
        with rows.as_declared(self.app):
            super().setup_schedule()

    def all_as_schedule(self) -> dict[str, entries.BeatEntry]:
        """Read the schedule."""
        self._changed_when_read = self._changed_at
        found: dict[str, entries.BeatEntry] = super().all_as_schedule()
        every_s = (
            entry.schedule.seconds
            for entry in found.values()
            if isinstance(entry.schedule, schedule) and not entry.begins_later()
        )
        self._read_at, self._shortest_s = time.monotonic(), min(every_s, default=math.inf)
        return found

    def install_default_entries(self, data: Mapping[str, entries.BeatEntry]) -> None:
        """Install the daily deletion of old results, if a result backend is set that does not delete them itself."""
        if self.app.conf.result_backend and not self.app.backend.supports_autoexpire:
            super().install_default_entries(data)

    def enabled_models_qs(self) -> QuerySet[PeriodicTask]:
        """Return all enabled tasks, and those that are new.

        django-celery-beat leaves out crontabs whose hour is far from this host's time.
        """
        return PeriodicTask.objects.filter(Q(enabled=True) | Q(description=NEW))  # type: ignore[no-any-return]  # as above

    def reserve(self, entry: entries.BeatEntry) -> entries.BeatEntry:
        """Record that a task is sent, and put the new entry into the schedule, from which the heap may be built anew.

        The copy with which Celery compares the schedule gets the entry, too: otherwise Celery would build the heap anew
        for each message.
        """
        reserved: entries.BeatEntry = super().reserve(entry)
        self._schedule[reserved.name] = self.old_schedulers[reserved.name] = reserved
        return reserved

    def sync(self) -> None:
        """Save when tasks were sent. If PostgreSQL is away, the times are saved later."""
        try:
            for name in list(self._dirty):
                if entry := self._schedule.get(name):
                    entry.save()
                self._dirty.discard(name)
        except Error as error:
            log.warning("beat_cannot_save", error=str(error))
            sessions.leave(connection)

    def apply_entry(self, entry: entries.BeatEntry, producer: None = None) -> None:  # noqa: ARG002  Celery's signature
        """Send a task that is due. Skip a tick if enough ticks already wait, or if it would find nothing to do.

        Raises BrokerUnreachable, _MayBeLost if another beat may send the task, and database errors.
        """
        try:
            self._send(entry)
        except (broker_link.BrokerUnreachable, _MayBeLost, Error):
            # The task is still due, even if the schedule is saved and read again before the broker is back.
            entry.model.last_run_at = entry.last_run_at
            entry.model.total_run_count = entry.total_run_count
            raise

    def _send(self, entry: entries.BeatEntry) -> None:
        if time.monotonic() > self._sure_until:
            raise _MayBeLost
        if self._sent_ticks.is_needless(entry.name, str(entry.task)):
            self._dirty.discard(entry.name)  # nothing was sent, so nothing is saved
        elif not self._is_superfluous(entry):
            self._sent_ticks.note(entry.name)
            with broker_link.producer() as own:
                try:
                    self.apply_async(entry.to_send(), producer=own, advance=False)
                except SchedulingError as error:
                    if isinstance(error.__context__, broker_link.errors()):
                        raise error.__context__ from None
                    log.exception("beat_cannot_send", task=entry.task)
                    return
        self._got_on_at, self._is_stuck = time.monotonic(), False

    def close(self) -> None:
        """Close the scheduler, and give up the lease."""
        connection.close()  # a signal may have interrupted a statement, so its session is not usable
        super().close()
        self._give()
        self._presence.end()

    def _is_superfluous(self, entry: ScheduleEntry) -> bool:
        queue = (entry.options or {}).get("queue") or broker_link.queue_of(str(entry.task))
        if not ticks.is_superfluous(str(entry.task), queue, ticks.MOST_WAITING):
            self._full.discard(queue)
            return False
        if queue not in self._full:  # log once each time that the queue fills up
            log.warning("ticks_are_behind", queue=queue)
        self._full.add(queue)
        return True

    def _give_way(self, error: broker_link.BrokerUnreachable) -> None:
        if not self._is_cut_off:
            log.warning("beat_waits_for_broker", error=str(error))
        self._is_cut_off = True
        self._give_up()

    def _forget_the_future(self) -> None:
        """Set last runs in the future to now: a clock was set back, and the tasks would wait until that time."""
        now = entries.clock.now()
        if ahead := [entry for entry in self.schedule.values() if entry.last_run_at > now + CLOCK_TOLERANCE]:
            log.warning("beat_clock_set_back", tasks=len(ahead))
            for entry in ahead:
                entry.ran_at(now)
                self._dirty.add(entry.name)
            self._heap = None

    def _has_sent_lately(self) -> bool:
        """Return whether this beat sends tasks in time. If not, give up the lease: it misses a task that is due."""
        if time.monotonic() <= self._got_on_at + self._shortest_s + SENDS_WITHIN_S:
            return True
        log.error("beat_sends_nothing")
        self._is_stuck = True
        self._give_up()
        return False

    def _stand_by(self) -> None:
        self._has_lease = False
        self._heap = None  # the heap lacks tasks that were not sent

    def _lose(self, error: Error) -> None:
        """Stand by, and let the lease run out, because PostgreSQL does not answer now."""
        log.warning("beat_lost_lease", error=str(error))
        sessions.leave(connection)
        self._stand_by()

    def _give_up(self) -> None:
        if self._has_lease:
            self._stand_by()
            self._give()

    def _give(self) -> None:
        try:
            GIVE_BEAT(holder=self._holder)
        except Error as error:  # the lease ends by itself
            log.warning("beat_lost_lease", error=str(error))
            sessions.leave(connection)

    def _holds_lease(self) -> bool:
        """Renew the lease when it is time, or take it if no beat has it; return whether this beat has the lease."""
        if self._has_lease and time.monotonic() < self._renewed_at + RENEWED_EVERY_S:
            return True
        try:
            if not self._has_lease:
                broker_link.waiting(task_names.DISPATCH)  # raises BrokerUnreachable: then this beat stands by
            self._renewed_at = time.monotonic()
            self._sure_until = self._renewed_at + SURE_FOR_S
            if taken := TAKE_BEAT(holder=self._holder, lease=LEASE_S):
                entries.clock.set(taken[0].now)
                self._changed_at = taken[0].changed_at
        except Error as error:
            self._lose(error)
            return False
        has_it = bool(taken)
        if has_it and not self._has_lease:
            log.info("beat_holds_lease")
            self._has_lease, self._is_cut_off = True, False
            self._got_on_at, self._read_at = time.monotonic(), -math.inf  # another beat may have sent tasks
            self._sent_ticks.forget()
        elif self._has_lease and not has_it:
            log.warning("beat_lost_lease", error="another beat has it: this one was held up, or cut off")
            self._stand_by()
        return has_it
