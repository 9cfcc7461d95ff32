"""What becomes of e-mails if PostgreSQL has forgotten whether they were sent: a part of a recovery."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from weir.postgres import moments
from weir.postgres.statements import Statement
from weir.postgres.timeline import gate

BATCH: Final = 1_000
CLOCK_ERROR: Final = timedelta(minutes=1)  # of the latest clock that is known


class RecoveredBatch(NamedTuple):
    """How many e-mails became unknown, and the id of the last one."""

    unknown: int
    last: int


MAKE_UNKNOWN = Statement("make_unknown", row=RecoveredBatch, commits=True)


def make_unknown(*, since: datetime, **_signal: object) -> int:
    """Make all e-mails unknown that may have been sent `since` then.

    Those are due, wait after an attempt, are claimed or being sent, or are unknown already, because an unknown one may
    have been sent again. The latest clock decides which are due: a snapshot's clock may be behind the clock by which
    e-mails were sent. Returns how many. A living mailer still settles an e-mail that it has in hand, when it learns
    that the e-mail was accepted.
    """
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have been sent."
    made, batch = 0, RecoveredBatch(BATCH, 0)
    until = _latest() + CLOCK_ERROR
    while batch.unknown == BATCH and gate.renew():  # what is sent after another process ended it is not forgotten
        parameters = {"until": until, "reply": reply, "after": batch.last, "batch": BATCH}
        [batch] = MAKE_UNKNOWN(**parameters)
        made += batch.unknown
    return made


def _latest() -> datetime:
    """Return the latest of PostgreSQL's time, the time that it was expected to have now, and this host's time."""
    now = moments.now()
    return max(now, datetime.now(UTC), gate.latest_expected() or now)
