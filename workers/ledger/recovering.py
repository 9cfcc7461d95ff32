"""Makes effects unknown if PostgreSQL has forgotten whether they happened. This is a part of a recovery."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from weir.postgres import moments
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate
from weir.workers.ledger.names import LedgerNames

BATCH: Final = 1_000
CLOCK_ERROR: Final = timedelta(minutes=1)  # how wrong the latest known clock may be


class RecoveredBatch(NamedTuple):
    """How many effects became unknown, and the id of the last one."""

    unknown: int
    last: int


MAKE_UNKNOWN = Statement("make_unknown", row=RecoveredBatch, commits=True)


def make_unknown(names: LedgerNames, reply: str) -> int:
    """Make all effects unknown that may have happened in the lost time. Return how many.

    These are the effects that are due, wait after an attempt, are claimed, or are begun; and unknown effects, because
    an operator may have repeated them. The latest known clock decides which effects are due: the clock of a restored
    snapshot may be behind the clock by which effects were begun. A worker that still runs records an acceptance even
    after this, when it learns that the effect in its hand was accepted.
    """
    statement = MAKE_UNKNOWN.with_names(names._asdict())
    made, batch = 0, RecoveredBatch(BATCH, 0)
    until = _latest() + CLOCK_ERROR
    # If another process has ended the recovery, stop: PostgreSQL knows what happened since then.
    while batch.unknown == BATCH and gate.renew():
        [batch] = statement(until=until, reply=reply, after=batch.last, batch=BATCH)
        made += batch.unknown
    return made


def _latest() -> datetime:
    """Return the latest of three times: PostgreSQL's, the one expected of PostgreSQL, and this host's."""
    now = moments.now()
    return max(now, datetime.now(UTC), gate.latest_expected() or now)
