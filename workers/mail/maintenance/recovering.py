"""Makes e-mails unknown if PostgreSQL has forgotten whether they were sent. This is a part of a recovery."""

from datetime import datetime

from weir.workers.ledger import recovering
from weir.workers.mail.phases import NAMES


def make_unknown(*, since: datetime, **_signal: object) -> int:
    """Make all e-mails unknown that may have been sent after `since`. Return how many."""
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have been sent."
    return recovering.make_unknown(NAMES, reply)
