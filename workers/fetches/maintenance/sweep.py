"""Sweep: finds what was lost on the way, every two seconds.

1. The leases of lost processes end now (processes/status.py): of fetchers that are frozen, dead or cut off.
2. Fetches whose lease ran out are judged and stored like any other: they are queued again, or fail.
3. Fetches whose host belongs to another site now are moved there (strays.py), and so are those whose site was deleted
   (deleted_sites.py).
4. Sites whose backlog was overlooked are activated and dispatched (backlog.py).
5. Fetches that wait for what became of their effects end when that is known (once/following.py).
6. Calls of `on_done` that were not made, or whose task a worker did not know, are repeated (on_done/calls.py).
7. The numbers of batches are folded, and batches of which nothing is left call their tasks (batches/counting.py).
"""

from random import random
from typing import NamedTuple

from weir.logs.loggers import get_logger
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.workers import task_names
from weir.workers.fetches import backlog, strays
from weir.workers.fetches.batches import counting
from weir.workers.fetches.fetcher.results import outcomes
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.jobs import FetchOutcome
from weir.workers.fetches.maintenance import deleted_sites
from weir.workers.fetches.models import FetchState
from weir.workers.fetches.on_done.calls import call_overdue, renew
from weir.workers.fetches.once import following
from weir.workers.processes import status
from weir.workers.publish import publish

log = get_logger(__name__)

BATCH = 1_000  # fetches that are stored together
MOST_FOUND = 20_000  # fetches that one statement finds; it also reads what all fetchers hold


class LostFetch(NamedTuple):
    """A fetch that is held, and whose lease ran out."""

    id: int
    slot_id: int
    state: str
    attempts: int
    max_attempts: int
    losses: int
    in_hand: bool
    is_explained: bool


class LostProcess(NamedTuple):
    """A process that is lost, and how many fetches it held whose leases were ended."""

    process: int
    fetches: int


EXPIRE_LEASES = Statement("expire_leases", row=LostProcess, commits=True)
LOST = Statement("lost", row=LostFetch, commits=True)


def sweep() -> int:
    """Do the seven steps of the module's head; returns the number of fetches whose lease ran out.

    Safe to run twice or together: the first sweep that stores a fetch takes it back. A fetcher that held it, and wakes
    up late, cannot store it any more, because the fetch has another slot or none.
    """
    gate.require()  # before leases are judged by PostgreSQL's clock
    _expire_leases()
    taken_back = 0
    while rows := LOST(most=MOST_FOUND):
        for first in range(0, len(rows), BATCH):
            store([_outcome_of(row) for row in rows[first : first + BATCH]])
        taken_back += len(rows)
    strays.follow_all()
    deleted_sites.follow_late()
    if backlog.find_overlooked():
        publish(task_names.DISPATCH)
    following.end_awaiting()
    renew()
    call_overdue()
    counting.settle()
    return taken_back


def _outcome_of(lost: LostFetch) -> FetchOutcome:
    return outcomes.lost(
        fetch_id=lost.id,
        slot_id=lost.slot_id,
        was_running=lost.state == FetchState.RUNNING,
        attempts=lost.attempts,
        max_attempts=lost.max_attempts,
        losses=lost.losses,
        in_hand=lost.in_hand,
        is_explained=lost.is_explained,
        chance=random(),  # noqa: S311  jitter
    )


def _expire_leases() -> None:
    if names := status.lost():
        for row in EXPIRE_LEASES(processes=list(names)):
            log.warning("process_lost", process=names[row.process], fetches=row.fetches)
