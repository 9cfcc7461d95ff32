"""Counts: the exact numbers of a batch, without a look at its fetches.

from weir import batch_counts
batch_counts("import-7").unfinished
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.workers.fetches.models import Batch


class UnknownBatch(LookupError):
    """There is no such batch."""

    def __init__(self, batch: str | int) -> None:
        super().__init__(f"There is no batch {batch!r}: `manage.py batches` lists the newest.")


class BatchCounts(NamedTuple):
    """A batch and its numbers, at one moment.

    Fetches that were deleted after their end, because they were old, still count.
    """

    id: int
    name: str
    on_done: str  # the task of `on_batch_done`; empty without one
    is_open: bool  # the caller has said that more is to come
    unfinished: int
    done: int
    failed: int
    cancelled: int
    created_at: datetime
    ended_at: datetime | None  # when sweep saw that nothing was left; None: it has not ended, or was opened again
    on_done_called_at: datetime | None
    on_done_again_at: datetime | None

    @property
    def total(self) -> int:
        """All fetches that were ever asked for under the name, but those that were deleted before their end."""
        return self.unfinished + self.done + self.failed + self.cancelled

    @property
    def ended(self) -> int:
        """Those that have ended."""
        return self.done + self.failed + self.cancelled

    @property
    def state(self) -> str:
        """`open`: more is to come; `running`; or `ended`: nothing is left, and sweep has seen that."""
        if self.is_open:
            return "open"
        return "running" if self.unfinished or self.ended_at is None else "ended"


BATCH_COUNTS = Statement("batch_counts", row=BatchCounts, commits=False)


def batch_counts(name: str) -> BatchCounts:
    """Return the exact numbers of the batch.

    They include what the caller's transaction has changed. One query, whose cost does not grow with the batch. Raises
    UnknownBatch.
    """
    return counts_of(id_of(name))


def id_of(name: str) -> int:
    """Return the id of the batch. Raises UnknownBatch."""
    if (found := Batch.objects.filter(name=name).values_list("pk", flat=True).first()) is None:
        raise UnknownBatch(name)
    return int(found)


def counts_of(batch_id: int) -> BatchCounts:
    """Return the numbers of the batch with this id. Raises UnknownBatch."""
    if not (found := all_counts([batch_id])):
        raise UnknownBatch(batch_id)
    return found[0]


def all_counts(ids: Iterable[int]) -> Sequence[BatchCounts]:
    """Return the numbers of these batches, in the order of `ids`; batches that are gone are left out."""
    return BATCH_COUNTS(ids=statements.bigints(ids))
