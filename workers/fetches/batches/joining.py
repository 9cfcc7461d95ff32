"""Joining: web code names the batch of the fetches that it asks for."""

from datetime import datetime
from typing import NamedTuple

from django.db.models import F

from weir.postgres.statements import Statement
from weir.workers.fetches.models import LONGEST_BATCH_NAME, Batch
from weir.workers.on_done.names import name_of


class HeldBatch(NamedTuple):
    """A batch that purge leaves alone until the caller's transaction ends."""

    id: int
    on_done: str
    is_open: bool
    ended_at: datetime | None


class WantedBatch(NamedTuple):
    """What a call says about the batch of its fetches."""

    name: str
    on_done: str
    is_open: bool

    def join(self) -> int:
        """Make the batch, or open it again; returns its id. Must be called in the transaction that inserts the fetches.

        Waits for another transaction only if that has just made the batch, or changes its task or whether it is open.
        """
        while not (found := HOLD_BATCH(name=self.name)):
            CREATE_BATCH(**self._asdict())
        [held] = found
        if (held.is_open, held.ended_at) != (self.is_open, None) or self.on_done not in {"", held.on_done}:
            Batch.objects.filter(pk=held.id).update(
                is_open=self.is_open,
                on_done=self.on_done or F("on_done"),
                ended_at=None,
                on_done_called_at=None,
                on_done_again_at=None,
            )
        return held.id


HOLD_BATCH = Statement("hold_batch", row=HeldBatch, commits=False)
CREATE_BATCH = Statement("create_batch", commits=False)


def wanted_batch(name: object, on_batch_done: object, *, more_to_come: bool) -> WantedBatch | None:
    """Return what the caller says about the batch; None without one. Raises ValueError and TypeError."""
    if name is None:
        if on_batch_done or more_to_come:
            raise ValueError("on_batch_done and more_to_come are about a batch: name it, such as batch='import-7'.")
        return None
    if not isinstance(name, str):
        raise TypeError(f"batch must be the name of a batch, not {name!r}.")
    if not 1 <= len(name) <= LONGEST_BATCH_NAME or not name.isprintable():
        raise ValueError(f"batch must be a name of 1 to {LONGEST_BATCH_NAME} printable characters, not {name[:300]!r}.")
    return WantedBatch(name, name_of(on_batch_done, "on_batch_done"), bool(more_to_come))


def close(batch_id: int) -> bool:
    """Let a batch end for which more was to come, when nothing of it is left; returns whether it was open."""
    return bool(Batch.objects.filter(pk=batch_id, is_open=True).update(is_open=False))
