"""Flush: moves sealed deltas from Redis to PostgreSQL in bulk, each exactly once, whatever is killed.

1. Seal: close the open epoch, unless an epoch is sealed already. In that case the sealed epoch comes first.
2. Read the sealed epoch's deltas.
3. Apply, in one statement: record the epoch as flushed, and add its deltas to the stored numbers. If the epoch is
   recorded already, the flusher adds nothing. If another flusher is applying it, this flusher leaves the epoch to it.
4. Drop the epoch from Redis. A flusher does this only after it saw the commit of step 3. The last few epochs are kept
   for polls.

A flusher may be killed between any two steps, or stopped for any time: the next flusher begins again with step 1.
Readers add only deltas of epochs after the epoch of the stored number. So, between steps 3 and 4, they miss no delta
and count none twice.

Entries that another program has written into the epoch are dropped together with it, and logged. A user whose delta was
spoilt in this way becomes a doubt in the transaction of step 3.
"""

from dataclasses import dataclass
from typing import NamedTuple

from django.db import transaction

from weir.conf import settings
from weir.logs.loggers import get_logger
from weir.notifications import counters, user_keys, watching
from weir.notifications.changes import NOTE_DOUBTS_WITHIN
from weir.postgres import bounded, statements
from weir.postgres.statements import Statement

log = get_logger(__name__)


class AppliedEpoch(NamedTuple):
    """How many epochs and how many users' numbers were written; none if another flusher `is_busy` with the epoch."""

    is_busy: bool
    epochs: int
    users: int


APPLY_EPOCH = Statement("apply_epoch", row=AppliedEpoch, commits=False)
HIGHEST_EPOCH = Statement("highest_epoch", returns=int, commits=False, prepare=True)
LOCK_EPOCHS = Statement("lock_epochs", commits=False)
REFUSE_EPOCHS_BEFORE = Statement("refuse_epochs_before", commits=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class FlushReport:
    """What one flush itself wrote to PostgreSQL: how many epochs, and how many users' numbers."""

    epochs: int = 0
    users: int = 0


def flush_sealed() -> FlushReport:
    """Flush the epoch that is sealed, if there is one, and then the open epoch.

    Several processes may run this at the same time, and it may be killed at any point. Raises
    `counters.RedisUnreachable`, and database errors. After an error the sealed epoch waits for the next flush.
    """
    counters.open_epoch(highest_epoch())
    watching.tell()
    epochs = users = 0
    while sealed := counters.seal():
        applied = _apply(sealed.epoch)
        if applied.is_busy:  # another flusher applies and drops the epoch
            break
        is_dropped = counters.drop(sealed.epoch)
        epochs, users = epochs + applied.epochs, users + applied.users
        # Deltas that were added meanwhile, and an epoch that another process or program sealed, are for the next flush.
        if sealed.fresh or not is_dropped:
            break
    return FlushReport(epochs=epochs, users=users)


def highest_epoch() -> int:
    """Return the highest epoch that was flushed or is refused. An epoch that Redis opens must be above this epoch."""
    [epoch] = HIGHEST_EPOCH()
    return epoch


def refuse_before(epoch: int) -> None:
    """Refuse all earlier epochs from now on. Flushes that were applying an epoch have ended when this returns.

    Reconciliation calls this. A flusher that was stopped may hold deltas of a Redis that has lost its memory since.
    Reconciliation treats these deltas as lost, and repairs the numbers, so the flusher must not add them when it goes
    on.
    """
    with transaction.atomic(durable=True):
        LOCK_EPOCHS()
        REFUSE_EPOCHS_BEFORE(epoch=epoch)


def _apply(epoch: int) -> AppliedEpoch:
    sealed = counters.read(epoch)
    parameters = {
        "epoch": epoch,
        "users": user_keys.array(sealed.deltas),
        "deltas": statements.bigints(sealed.deltas.values()),
        "cap": settings.WEIR_UNREAD_CAP,
    }
    with transaction.atomic(durable=True):
        bounded.without_limit()  # otherwise an epoch that takes longer than the limit could never be flushed
        [applied] = APPLY_EPOCH(**parameters)
        if sealed.spoilt and applied.epochs:
            NOTE_DOUBTS_WITHIN(users=user_keys.array(sealed.spoilt))
    if sealed.strange and applied.epochs:
        log.warning("unread_strange_entries", entries=sealed.strange, first=sealed.first_strange)
    return applied
