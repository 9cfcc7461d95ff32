"""The changes that operators make to batches. Each call commits by itself, with its entries in the audit trail.

All raise acting.ActRefused (weir.workers.audit) if the actor is not permitted, and UnknownBatch.
"""

from typing import Final

from django.db import transaction

from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.fetches import cancelling, retrying
from weir.workers.fetches.actions.fetches import MAY_CHANGE, may_be_sent
from weir.workers.fetches.batches import joining
from weir.workers.fetches.batches.counts import BatchCounts, counts_of
from weir.workers.fetches.models import Fetch

CANCEL: Final = AuditedAction("batches.cancel", MAY_CHANGE)
RETRY: Final = AuditedAction("batches.retry", MAY_CHANGE)
CLOSE: Final = AuditedAction("batches.close", MAY_CHANGE)


def cancel(actor: Actor, batch_id: int, *, why: str = "", limit: int | None = None) -> cancelling.CancelledBatch:
    """Take back what has not started of a batch, as cancelling.cancel_batch does. An entry for each transaction."""
    CANCEL.allow(actor, why)
    batch = counts_of(batch_id)

    def note(cancelled: int) -> None:
        CANCEL.record(actor, named(batch), why, before=None, after={"cancelled": cancelled})

    return cancelling.cancel_batch(batch.name, limit=limit, note=note)


def retry(actor: Actor, batch_id: int, *, why: str = "", limit: int | None = None) -> retrying.Retried:
    """Queue the failed fetches of a batch again, as retrying.retry_failed does. An entry for each transaction.

    Raises NotPermitted, too, as `fetches.retry` does.
    """
    RETRY.allow(actor, why)
    batch = counts_of(batch_id)

    def note(queued: int) -> None:
        RETRY.record(actor, named(batch), why, before=None, after={"queued": queued})

    meant = may_be_sent(actor, Fetch.objects.filter(batch=batch_id))
    return retrying.retry_failed(meant, limit=limit, note=note)


def close(actor: Actor, batch_id: int, *, why: str = "") -> bool:
    """Let a batch end for which more was to come; returns False if nothing more was."""
    CLOSE.allow(actor, why)
    batch = counts_of(batch_id)
    with transaction.atomic(durable=True):
        is_closed = joining.close(batch_id)
        if is_closed:
            CLOSE.record(actor, named(batch), why, before={"open": True}, after={"open": False})
    return is_closed


def named(batch: BatchCounts) -> str:
    """Return what the audit trail calls the batch."""
    return f"batch {batch.id}"
