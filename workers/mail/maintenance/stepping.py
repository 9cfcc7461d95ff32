"""Corrects the times of e-mails when PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.workers.ledger.stepping import STEP
from weir.workers.mail.phases import NAMES

_STEP = STEP.with_names(NAMES._asdict())


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct leases, and the times at which e-mails become due, in the caller's transaction."""
    _STEP(step=step)
