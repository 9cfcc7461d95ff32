"""Sweep: finds what messages, workers and wake-ups lost, and sends it on its way again."""

from random import random

from postgres import statements
from workers import task_names
from workers.fetches import backlog
from workers.fetches.fetcher.outcomes import lost
from workers.fetches.fetcher.store import store
from workers.fetches.models import State
from workers.fetches.on_done import call_overdue
from workers.publish import publish

BATCH = 1_000


def sweep() -> int:
    """Take back every fetch whose lease ran out, turn on overlooked sites, repeat overdue calls; returns the fetches.

    Safe to run twice or together: a fetch is taken back by whoever stores it first, and a holder that wakes up after
    all finds that its slot is no longer the fetch's.
    """
    taken_back = 0
    while rows := statements.run("workers.fetches.maintenance", "lost", {"batch": BATCH}):
        store(
            [
                lost(
                    fetch_id=row.id,
                    slot_id=row.slot_id,
                    was_running=row.state == State.RUNNING,
                    attempts=row.attempts,
                    max_attempts=row.max_attempts,
                    chance=random(),  # noqa: S311  jitter
                )
                for row in rows
            ]
        )
        taken_back += len(rows)
    if backlog.find_overlooked():
        publish(task_names.DISPATCH)
    call_overdue()
    return taken_back
