"""Corrects the times of e-mails when PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct leases, and the times at which e-mails become due, in the caller's transaction."""
    STEP(step=step)
