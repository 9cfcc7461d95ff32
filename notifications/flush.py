"""Flush: sealed deltas go from Redis to PostgreSQL in bulk, each exactly once, whatever is killed.

1. Seal: the open epoch is closed, unless one is sealed already, which then comes first.
2. Read its deltas.
3. Apply: one statement, one transaction: note the epoch as flushed and add its deltas to the stored numbers. Whoever
   finds the epoch noted adds nothing.
4. Drop it from Redis.

Killed between any two steps, or stopped for as long as you like, it is done again from the first step by anybody. The
epoch is dropped only by who saw it committed. Readers take deltas only of epochs after the stored number's, so that
they see neither a dip nor a double between 3 and 4.
"""

from dataclasses import dataclass

import structlog
from django.db import transaction

from notifications import counters
from postgres import statements

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class FlushReport:
    """What one flush brought to PostgreSQL itself: epochs, and numbers written in them."""

    epochs: int = 0
    users: int = 0


def flush_sealed() -> FlushReport:
    """Flush the epoch that is sealed, if one is, and then the one that is open.

    Safe to run twice, together, or never again. Raises `counters.Unreachable`, and database errors; what is sealed
    waits for the next flush then.
    """
    counters.open_epoch(highest_epoch())
    epochs = users = 0
    while sealed := counters.seal():
        written = _apply(sealed.epoch)
        counters.drop(sealed.epoch)
        if written is not None:
            epochs, users = epochs + 1, users + written
        if sealed.fresh:  # what was added since then is the next flush's
            break
    return FlushReport(epochs=epochs, users=users)


def highest_epoch() -> int:
    """Return the highest epoch that was flushed. Epochs that Redis opens must be above it."""
    return int(statements.run_within("notifications", "highest_epoch", {}, prepare=True)[0].epoch)


def refuse_before(epoch: int) -> None:
    """Refuse all earlier epochs from now on; those that are being applied have committed when this returns.

    For heal: a flusher that was stopped may hold deltas of a Redis that has lost its memory since. They count as lost,
    and will be repaired; when it goes on they must not be added, too.
    """
    with transaction.atomic(durable=True):
        statements.run_within("notifications", "lock_epochs", {})
        statements.run_within("notifications", "refuse_before", {"epoch": epoch})


def _apply(epoch: int) -> int | None:
    """Return how many numbers were written; None where somebody else has flushed this epoch."""
    deltas = counters.read(epoch)
    rows = statements.run(
        "notifications",
        "apply",
        {"epoch": epoch, "users": statements.bigints(deltas), "deltas": statements.bigints(deltas.values())},
    )
    return rows[0].users if rows else None
