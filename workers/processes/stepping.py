"""Corrects the heartbeats of processes after PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct the times of the last heartbeats, in the caller's transaction."""
    STEP(step=step)
