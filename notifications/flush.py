"""Flush: sealed deltas go from Redis to PostgreSQL in bulk, each exactly once, whatever is killed.

1. Seal: the open epoch is closed, unless one is sealed already, which then comes first.
2. Read its deltas.
3. Apply, one statement: note the epoch as flushed and add its deltas to the stored numbers. Whoever finds the epoch
   noted adds nothing; whoever meets another flusher here leaves it to that one.
4. Drop it from Redis.

Killed between any two steps, or stopped for as long as you like, it is done again from the first step by anybody. The
epoch is dropped only by who saw it committed. Readers take deltas only of epochs after the stored number's, so that
they see neither a dip nor a double between 3 and 4.
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from notifications import counters
from postgres import statements


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
        applied = _apply(sealed.epoch)
        if applied.is_busy:  # somebody else has it, and drops it
            break
        counters.drop(sealed.epoch)
        epochs, users = epochs + applied.epochs, users + applied.users
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


def _apply(epoch: int) -> Any:  # noqa: ANN401  the row of apply.sql
    deltas = counters.read(epoch)
    parameters = {
        "epoch": epoch,
        "users": statements.bigints(deltas),
        "deltas": statements.bigints(deltas.values()),
    }
    with transaction.atomic(durable=True):
        statements.run_within("notifications", "without_timeout", {})
        return statements.run_within("notifications", "apply", parameters)[0]
