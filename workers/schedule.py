"""The schedule of beat, as data. `migrate` and `manage.py sync_schedule` write it into the database."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from weir.postgres import weir_apps
from weir.workers import task_names

# None of these queues is for users' tasks. `weir.ticks` keeps Weir going, so tasks that may take long are in other
# queues. A mail server that hangs delays only `weir.mail`.
FETCH: Final = "weir.fetch"
QUEUES: Final = ("weir.ticks", "weir.maintenance", FETCH, "weir.mail")

# Numbers of dispatch, which other modules use, too.
# Dispatch reserves at a site that is reserved for less than this many seconds ahead. That is more than the time between
# two ticks, which may be late, and less than the look-ahead, because longer runs are handed over less often.
REFILL: Final = 1.5
# Seconds until a message has reached a fetcher that has to connect first. An earlier slot would only be missed.
TRAVEL: Final = 0.1
# The most messages that no fetcher has taken yet. If their slots have passed, a fetcher handles some 200 a second.
MOST_UNTAKEN: Final = 500


# Describes the row of an entry that is new. A beat of the version before would send its task to workers that do not
# know it, so the row is disabled for that beat.
NEW: Final = "A beat of Weir sends this, though it is disabled: the version before does not know it."


@dataclass(frozen=True, kw_only=True)
class ScheduleEntry:
    """A periodic task. Each run does all that is due, so a tick that is lost or doubled only costs time."""

    name: str
    task: str
    every: timedelta
    app: str  # the task is not sent unless this app is installed
    queue: str = "weir.ticks"
    arguments: list[str] = field(default_factory=list)
    is_new: bool = False  # the version in deploy/UPGRADE_FROM does not have it


SCHEDULE: Final = (
    ScheduleEntry(
        name="weir: dispatch fetches", task=task_names.DISPATCH, every=timedelta(seconds=1), app="weir.workers.fetches"
    ),
    ScheduleEntry(
        name="weir: sweep fetches", task=task_names.SWEEP, every=timedelta(seconds=2), app="weir.workers.fetches"
    ),
    ScheduleEntry(
        name="weir: publish postponed tasks",
        task=task_names.PUBLISH_POSTPONED,
        every=timedelta(seconds=1),
        app="weir.workers.throttled",
    ),
    ScheduleEntry(
        name="weir: keep watch",
        task=task_names.KEEP_WATCH,
        every=timedelta(seconds=1),
        app="weir.workers.watches",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: deliver webhooks",
        task=task_names.DELIVER_WEBHOOKS,
        every=timedelta(seconds=1),
        app="weir.workers.webhooks",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: purge fetches",
        task=task_names.PURGE_FETCHES,
        every=timedelta(minutes=10),
        app="weir.workers.fetches",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: purge bodies",
        task=task_names.PURGE_BODIES,
        every=timedelta(minutes=1),
        app="weir.workers.fetches",
        queue="weir.maintenance",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: purge slots",
        task=task_names.PURGE_SLOTS,
        every=timedelta(minutes=10),
        app="weir.workers",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: flush unread", task=task_names.FLUSH_UNREAD, every=timedelta(seconds=2), app="weir.notifications"
    ),
    ScheduleEntry(
        name="weir: reconcile unread",
        task=task_names.RECONCILE_UNREAD,
        every=timedelta(seconds=10),
        app="weir.notifications",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: settle unread",
        task=task_names.SETTLE_UNREAD,
        every=timedelta(seconds=5),
        app="weir.notifications",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: expire notifications",
        task=task_names.EXPIRE_NOTIFICATIONS,
        every=timedelta(seconds=5),
        app="weir.notifications",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: purge notifications",
        task=task_names.PURGE_NOTIFICATIONS,
        every=timedelta(minutes=10),
        app="weir.notifications",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: gather digests",
        task=task_names.GATHER_DIGESTS,
        every=timedelta(seconds=10),
        app="weir.digests",
        queue="weir.maintenance",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: send e-mails",
        task=task_names.SEND_EMAILS,
        every=timedelta(seconds=2),
        app="weir.workers.mail",
        queue="weir.mail",
    ),
    ScheduleEntry(
        name="weir: purge e-mails",
        task=task_names.PURGE_EMAILS,
        every=timedelta(minutes=10),
        app="weir.workers.mail",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: perform effects",
        task=task_names.PERFORM_EFFECTS,
        every=timedelta(seconds=2),
        app="weir.workers.effects",
        queue="weir.mail",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: purge effects",
        task=task_names.PURGE_EFFECTS,
        every=timedelta(minutes=10),
        app="weir.workers.effects",
        queue="weir.maintenance",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: roll up history",
        task=task_names.ROLL_UP,
        every=timedelta(seconds=15),
        app="weir.workers.history",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: purge audit",
        task=task_names.PURGE_AUDIT,
        every=timedelta(hours=1),
        app="weir.workers.audit",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: keep events",
        task=task_names.KEEP_EVENTS,
        every=timedelta(minutes=1),
        app="weir.workers.events",
        queue="weir.maintenance",
        is_new=True,
    ),
    ScheduleEntry(
        name="weir: purge API answers",
        task=task_names.PURGE_API,
        every=timedelta(hours=1),
        app="weir.api",
        queue="weir.maintenance",
    ),
    ScheduleEntry(
        name="weir: tell operators",
        task=task_names.TELL_OPERATORS,
        every=timedelta(minutes=1),
        app="weir.workers.overview",
        queue="weir.maintenance",
    ),
)


def entries() -> tuple[ScheduleEntry, ...]:
    """Return the entries of the installed apps, and an entry for the heartbeat of each queue."""
    own = (entry for entry in SCHEDULE if weir_apps.is_installed(entry.app))
    return (*own, *map(_heartbeat, queues()))


def queues() -> tuple[str, ...]:
    """Return the queues that the installed apps watch, and Weir's queues that they use."""
    watched = dict.fromkeys(queue for app in weir_apps.installed() for queue in app.watched_queues)
    used = {entry.queue for entry in SCHEDULE if weir_apps.is_installed(entry.app)}
    if weir_apps.is_installed("weir.workers.fetches"):
        used.add(FETCH)  # no entry of the schedule has this queue
    return (*watched, *(queue for queue in QUEUES if queue in used))


def queue_of(task: str) -> str | None:
    """Return the queue of a task of Weir's, whatever a project's routes say; None for heartbeats and other tasks."""
    return _QUEUE_OF.get(task)


def tick_of(task: str) -> float:
    """Return the seconds between two runs of a task in the schedule."""
    return next(entry.every.total_seconds() for entry in SCHEDULE if entry.task == task)


def _heartbeat(queue: str) -> ScheduleEntry:
    return ScheduleEntry(
        name=f"weir: heartbeat {queue}",
        task=task_names.HEARTBEAT,
        every=timedelta(minutes=1),
        app="weir.workers",
        queue=queue,
        arguments=[queue],
    )


_QUEUE_OF: Final = {task_names.FETCH_BATCH: FETCH} | {entry.task: entry.queue for entry in SCHEDULE}
