"""The beat schedule, as data. `manage.py sync_schedule` brings it into the database."""

from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One periodic task. Each does all that is due, so a tick that is lost or doubled changes nothing but time."""

    name: str
    task: str
    every: timedelta
    queue: str = "default"
    arguments: list[str] = field(default_factory=list)


SCHEDULE = (
    Entry(name="weir: dispatch fetches", task="workers.tasks.dispatch", every=timedelta(seconds=1)),
    Entry(name="weir: sweep fetches", task="workers.tasks.sweep", every=timedelta(seconds=2)),
    Entry(name="weir: publish postponed tasks", task="workers.tasks.publish_postponed", every=timedelta(seconds=1)),
    Entry(name="weir: purge fetches", task="workers.tasks.purge_fetches", every=timedelta(minutes=10)),
    Entry(name="weir: flush unread", task="workers.tasks.flush_unread", every=timedelta(seconds=2)),
    Entry(name="weir: heal unread", task="workers.tasks.heal_unread", every=timedelta(seconds=10)),
    Entry(name="weir: purge notifications", task="workers.tasks.purge_notifications", every=timedelta(minutes=10)),
    Entry(
        name="weir: send e-mails",
        task="workers.mail.tasks.send_emails",
        every=timedelta(seconds=2),
        queue="mail",
    ),
    Entry(
        name="weir: heartbeat default",
        task="workers.tasks.heartbeat",
        every=timedelta(minutes=1),
        arguments=["default"],
    ),
    Entry(
        name="weir: heartbeat fetch",
        task="workers.tasks.heartbeat",
        every=timedelta(minutes=1),
        queue="fetch",
        arguments=["fetch"],
    ),
    Entry(
        name="weir: heartbeat mail",
        task="workers.tasks.heartbeat",
        every=timedelta(minutes=1),
        queue="mail",
        arguments=["mail"],
    ),
)


def tick_of(task: str) -> float:
    """Return the seconds between two runs of a task in the schedule."""
    return next(entry.every.total_seconds() for entry in SCHEDULE if entry.task == task)
