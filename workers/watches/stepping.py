"""Corrects the times at which watches are due after PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Move the times at which watches are due, if the clock was set back, in the caller's transaction."""
    STEP(step=step)
