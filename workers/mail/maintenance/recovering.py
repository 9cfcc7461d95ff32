"""Makes e-mails unknown if PostgreSQL has forgotten whether they were sent. This is a part of a recovery."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from weir.postgres import moments
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate

BATCH: Final = 1_000
CLOCK_ERROR: Final = timedelta(minutes=1)  # how wrong the latest known clock may be


class RecoveredBatch(NamedTuple):
    """How many e-mails became unknown, and the id of the last one."""

    unknown: int
    last: int


MAKE_UNKNOWN = Statement("make_unknown", row=RecoveredBatch, commits=True)


def make_unknown(*, since: datetime, **_signal: object) -> int:
    """Make all e-mails unknown that may have been sent after `since`. Return how many.

    These are the e-mails that are due, wait after an attempt, are claimed, or are being sent; and unknown e-mails,
    because an operator may have resent them. The latest known clock decides which e-mails are due: the clock of a
    restored snapshot may be behind the clock by which e-mails were sent. A mailer that still runs records an acceptance
    even after this, when it learns that the e-mail in its hand was accepted.
    """
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have been sent."
    made, batch = 0, RecoveredBatch(BATCH, 0)
    until = _latest() + CLOCK_ERROR
    # If another process has ended the recovery, stop: PostgreSQL knows what was sent since then.
    while batch.unknown == BATCH and gate.renew():
        parameters = {"until": until, "reply": reply, "after": batch.last, "batch": BATCH}
        [batch] = MAKE_UNKNOWN(**parameters)
        made += batch.unknown
    return made


def _latest() -> datetime:
    """Return the latest of three times: PostgreSQL's, the one expected of PostgreSQL, and this host's."""
    now = moments.now()
    return max(now, datetime.now(UTC), gate.latest_expected() or now)
