"""Counting: sweep folds what has changed into the batches, ends those of which nothing is left, and calls their tasks.

1. Add up the changes of each batch, and delete them (sql/fold_batches.sql).
2. A batch has ended if nothing of it is unfinished, no change waits, and its caller has not said that more is to come
   (sql/end_batches.sql). A change that is folded later opens it again, and it ends anew.
3. Publish the task of each batch that has ended, with the batch's name, and record that the broker accepted it. A call
   that is not recorded in time was lost, and is made again, as for `on_done` (on_done/calls.py).
4. A worker that does not know the task stores that in the batch; five minutes later the task is called again.

A fetch that was committed after step 2 has looked is one that was added later.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models.functions import Now

from weir.postgres.statements import Statement
from weir.workers.fetches.models import Batch
from weir.workers.fetches.on_done.calls import BATCH, MOST_UNKNOWN, OVERDUE
from weir.workers.fetches.on_done.unknown import BATCH_HEADER
from weir.workers.publish import call

BATCHES: Final = 100  # batches of one statement
CHANGES: Final = 10_000  # of one batch in one statement
WITHIN_S: Final = 1.0  # seconds after which a sweep leaves the rest to the next one


class Folded(NamedTuple):
    """How many batches a statement looked at, and the last of them."""

    looked_at: int
    last: int | None


class EndedBatch(NamedTuple):
    """A batch that has ended, and the task that it names; empty without one."""

    id: int
    name: str
    on_done: str
    ended_at: datetime


FOLD_BATCHES = Statement("fold_batches", row=Folded, commits=True)
END_BATCHES = Statement("end_batches", row=EndedBatch, commits=True)


def settle() -> None:
    """Do the four steps of the module's head. Safe to run twice or together; may be killed anywhere."""
    fold()
    call_on_batch_done(END_BATCHES(most=BATCH))
    renew()
    call_overdue()


def fold() -> None:
    """Add what has changed to the numbers of the batches. A batch that another transaction has locked is left alone."""
    after, looked_at, until = 0, BATCHES, time.monotonic() + WITHIN_S
    while looked_at == BATCHES and time.monotonic() < until:
        [folded] = FOLD_BATCHES(after=after, batches=BATCHES, changes=CHANGES)
        after, looked_at = folded.last or 0, folded.looked_at


def call_on_batch_done(ended: Iterable[EndedBatch]) -> None:
    """Publish the task of each batch, and record the calls that the broker accepted; stops at the first other one.

    The call is not recorded if the batch was opened again meanwhile: its next end needs a call of its own.
    """
    for batch in ended:
        if not batch.on_done:
            continue
        if not call(batch.on_done, batch.name, headers={BATCH_HEADER: batch.id}):
            return
        Batch.objects.filter(pk=batch.id, ended_at=batch.ended_at).update(on_done_called_at=Now())


def call_overdue() -> None:
    """Repeat the calls that were not recorded in time."""
    overdue = Batch.objects.filter(ended_at__lt=Now() - OVERDUE, on_done_called_at=None).exclude(on_done="")
    call_on_batch_done(
        map(EndedBatch._make, overdue.order_by("ended_at").values_list("pk", "name", "on_done", "ended_at")[:BATCH])
    )


def renew() -> None:
    """Record as not made the calls of tasks that a worker did not know, when they are due again; a few at a time."""
    due = Batch.objects.filter(on_done_again_at__lte=Now())
    if chosen := list(due.order_by("on_done_again_at").values_list("pk", flat=True)[:MOST_UNKNOWN]):
        due.filter(pk__in=chosen).update(on_done_called_at=None, on_done_again_at=None)
