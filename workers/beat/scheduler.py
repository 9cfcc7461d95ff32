"""A scheduler for beat that may run several times: one holds a lease and ticks, the others stand by.

PostgreSQL's clock, read with each renewal of the lease, says what is due: steps of this host's clock do not matter.
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
from django.db.models import QuerySet
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

log = get_logger(__name__)

STANDBY = 1.0  # seconds between two attempts of a standby to get the lease
CLOCK_TOLERANCE: Final = timedelta(seconds=1)  # how far another host's clock may be ahead of PostgreSQL's
LEASE_S: Final = 6.0
RENEWED_EVERY_S: Final = 0.9  # by the first turn after that: once a second, because turns come at least as often
SURE_FOR_S: Final = 5.0  # for this long after asking, a beat that is held up can be sure that it holds the lease
TURN_S: Final = 1.0  # how long a beat sends what is due before it checks the lease again
SHORTEST_WAIT_S: Final = 0.1  # between two turns of a beat that has sent all: tasks due meanwhile go together
READ_EVERY_S: Final = 300.0  # the schedule is read anew this often at least
SENDS_WITHIN_S: Final = 5.0  # how late a task may be sent: after that, a beat leaves the lease to another


class _MayBeLost(Exception):
    """The lease may be another beat's by now."""


class _Taken(NamedTuple):
    """When the lease was taken or renewed, by PostgreSQL's clock, and when the schedule was changed last."""

    now: datetime
    changed_at: datetime | None  # by a web process' clock


GIVE_BEAT = Statement("give_beat", commits=True)
TAKE_BEAT = Statement("take_beat", row=_Taken, commits=True, prepare=True)


class LeasedScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat ships no types
    """django-celery-beat's scheduler behind a lease, one row in PostgreSQL.

    When the process or its host dies, is frozen or cut off from PostgreSQL, a standby gets the lease within ten
    seconds. A beat that ends, or cannot reach the broker, gives it up immediately, and takes it again when it can.
    """

    Entry = entries.BeatEntry
    producer = None  # Celery's would wait for the broker forever, and hold the lease: `_send` brings its own
    _has_lease = False
    _is_cut_off = False
    _is_stuck = False  # it had the lease, and sent nothing; nor has it since
    # Of time.monotonic():
    _renewed_at = 0.0  # the last renewal of the lease, or attempt at it
    _sure_until = 0.0
    _read_at = -math.inf  # the last reading of the schedule
    _got_on_at = 0.0  # when it last sent a task, or found that it need not, or took the lease
    _shortest_s = math.inf  # the shortest interval of the schedule

    def __init__(self, *args: Any, name: str = "", each_tick: Callable[[], None] = lambda: None, **kwargs: Any) -> None:
        """Begin as a standby. `name` is its row's in the table of processes; the default is that of a beat process."""
        self._each_tick = each_tick
        beat_begins.send(type(self), app=args[0] if args else kwargs["app"])
        self._holder = uuid4()
        self._full: set[str] = set()  # queues whose ticks wait for their workers
        self._sent_ticks = work.SentTicks()
        self._changed_at: datetime | None = None  # the last change of the schedule, when the lease was renewed last
        self._changed_when_read: datetime | None = None  # the last change of the schedule, when it was read
        name = name or f"{os.environ.get('HONCHO_PROCESS_NAME') or BEAT}@{presence.host()}"
        self._presence = presence.Presence(kind=BEAT, name=name)
        super().__init__(*args, **kwargs)
        self.max_interval, self.sync_every_tasks = STANDBY, 1

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send all tasks that are due, if this beat holds the lease; returns the seconds until the next tick.

        Celery's tick sends one task. Each would need a check of the lease and of the schedule, for which a beat that is
        far from PostgreSQL has no time.
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
                return 2 * STANDBY  # another beat that stands by goes first
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
        """Return whether the schedule was changed, as each renewal of the lease tells, or was read long ago."""
        return self._changed_at != self._changed_when_read or time.monotonic() > self._read_at + READ_EVERY_S

    def setup_schedule(self) -> None:
        """Make rows of the project's `beat_schedule`, and delete those of entries that it no longer has."""
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
        """Install the daily deletion of old results if there is a store of results that does not do so by itself."""
        if self.app.conf.result_backend and not self.app.backend.supports_autoexpire:
            super().install_default_entries(data)

    def enabled_models_qs(self) -> QuerySet[PeriodicTask]:
        """Return all enabled tasks, even if they are due at hours of the day far from this host's time."""
        return PeriodicTask.objects.enabled()  # type: ignore[no-any-return]  # as above

    def reserve(self, entry: entries.BeatEntry) -> entries.BeatEntry:
        """Record that a task is sent. The schedule gets the new entry, too: the heap may have to be made anew from it.

        So does the copy that Celery compares with it: a different entry there would make Celery build the heap anew for
        each message.
        """
        reserved: entries.BeatEntry = super().reserve(entry)
        self._schedule[reserved.name] = self.old_schedulers[reserved.name] = reserved
        return reserved

    def sync(self) -> None:
        """Save when tasks were sent; times that PostgreSQL does not take are saved later."""
        try:
            for name in list(self._dirty):
                if entry := self._schedule.get(name):
                    entry.save()
                self._dirty.discard(name)
        except Error as error:
            log.warning("beat_cannot_save", error=str(error))
            sessions.leave(connection)

    def apply_entry(self, entry: entries.BeatEntry, producer: None = None) -> None:  # noqa: ARG002  Celery's signature
        """Send a task that is due, unless it is a tick, and enough of these wait, or there is nothing to do.

        Raises BrokerUnreachable, _MayBeLost if another beat may send it, and database errors.
        """
        try:
            self._send(entry)
        except (broker_link.BrokerUnreachable, _MayBeLost, Error):
            # It is still due, even if the schedule is saved and read again before the broker is back.
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
        connection.close()  # a signal may have interrupted its statement: the result is not known
        super().close()
        self._give()
        self._presence.end()

    def _is_superfluous(self, entry: ScheduleEntry) -> bool:
        queue = (entry.options or {}).get("queue") or broker_link.queue_of(str(entry.task))
        if not ticks.is_superfluous(str(entry.task), queue, ticks.MOST_WAITING):
            self._full.discard(queue)
            return False
        if queue not in self._full:  # once for each time that it fills up
            log.warning("ticks_are_behind", queue=queue)
        self._full.add(queue)
        return True

    def _give_way(self, error: broker_link.BrokerUnreachable) -> None:
        if not self._is_cut_off:
            log.warning("beat_waits_for_broker", error=str(error))
        self._is_cut_off = True
        self._give_up()

    def _forget_the_future(self) -> None:
        """Set last runs in the future to now: a clock was set back, and their tasks would wait for that time."""
        now = entries.clock.now()
        if ahead := [entry for entry in self.schedule.values() if entry.last_run_at > now + CLOCK_TOLERANCE]:
            log.warning("beat_clock_set_back", tasks=len(ahead))
            for entry in ahead:
                entry.ran_at(now)
                self._dirty.add(entry.name)
            self._heap = None

    def _has_sent_lately(self) -> bool:
        """Return True if so; else give up the lease: a task should have been sent, and this beat does not find it."""
        if time.monotonic() <= self._got_on_at + self._shortest_s + SENDS_WITHIN_S:
            return True
        log.error("beat_sends_nothing")
        self._is_stuck = True
        self._give_up()
        return False

    def _stand_by(self) -> None:
        self._has_lease = False
        self._heap = None  # tasks that were not sent are missing in it

    def _lose(self, error: Error) -> None:
        """Let the lease run out: PostgreSQL does not answer now."""
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
        """Renew the lease when it is time, or take it if no other beat has it; return whether this beat has it."""
        if self._has_lease and time.monotonic() < self._renewed_at + RENEWED_EVERY_S:
            return True
        try:
            if not self._has_lease:
                broker_link.waiting(task_names.DISPATCH)  # raises BrokerUnreachable: a beat that cannot send stands by
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
            self._got_on_at, self._read_at = time.monotonic(), -math.inf  # another beat has sent, unknown here
            self._sent_ticks.forget()
        elif self._has_lease and not has_it:
            log.warning("beat_lost_lease", error="another beat has it: this one was held up, or cut off")
            self._stand_by()
        return has_it
