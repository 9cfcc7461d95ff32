"""The beat schedule, as data. `manage.py sync_schedule` writes it into the database."""

from dataclasses import dataclass, field
from datetime import timedelta

from weir.workers import task_names

# `default` is for the tasks of users. What may take long is not in `weir.ticks`, which keeps Weir going, and a mail server
# that hangs holds up nothing but `weir.mail`.
QUEUES = ("default", "weir.ticks", "weir.maintenance", "weir.fetch", "weir.mail")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One periodic task. Each run does all that is due, so a tick that is lost or doubled only costs time."""

    name: str
    task: str
    every: timedelta
    queue: str = "weir.ticks"
    arguments: list[str] = field(default_factory=list)


SCHEDULE = (
    Entry(name="weir: dispatch fetches", task=task_names.DISPATCH, every=timedelta(seconds=1)),
    Entry(name="weir: sweep fetches", task=task_names.SWEEP, every=timedelta(seconds=2)),
    Entry(name="weir: publish postponed tasks", task=task_names.PUBLISH_POSTPONED, every=timedelta(seconds=1)),
    Entry(
        name="weir: purge fetches",
        task=task_names.PURGE_FETCHES,
        every=timedelta(minutes=10),
        queue="weir.maintenance",
    ),
    Entry(name="weir: flush unread", task=task_names.FLUSH_UNREAD, every=timedelta(seconds=2)),
    Entry(
        name="weir: reconcile unread",
        task=task_names.RECONCILE_UNREAD,
        every=timedelta(seconds=10),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: settle unread",
        task=task_names.SETTLE_UNREAD,
        every=timedelta(seconds=5),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: expire notifications",
        task=task_names.EXPIRE_NOTIFICATIONS,
        every=timedelta(seconds=5),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: purge notifications",
        task=task_names.PURGE_NOTIFICATIONS,
        every=timedelta(minutes=10),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: send e-mails",
        task=task_names.SEND_EMAILS,
        every=timedelta(seconds=2),
        queue="weir.mail",
    ),
    Entry(
        name="weir: purge e-mails",
        task=task_names.PURGE_EMAILS,
        every=timedelta(minutes=10),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: roll up history",
        task=task_names.ROLL_UP,
        every=timedelta(seconds=15),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: purge audit",
        task=task_names.PURGE_AUDIT,
        every=timedelta(hours=1),
        queue="weir.maintenance",
    ),
    Entry(
        name="weir: purge API answers",
        task=task_names.PURGE_API,
        every=timedelta(hours=1),
        queue="weir.maintenance",
    ),
    *(
        Entry(
            name=f"weir: heartbeat {queue}",
            task=task_names.HEARTBEAT,
            every=timedelta(minutes=1),
            queue=queue,
            arguments=[queue],
        )
        for queue in QUEUES
    ),
)


def tick_of(task: str) -> float:
    """Return the seconds between two runs of a task in the schedule."""
    return next(entry.every.total_seconds() for entry in SCHEDULE if entry.task == task)
