"""What happens to the heartbeats of processes when PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Put the times of the last heartbeats right; in the caller's transaction."""
    STEP(step=step)
