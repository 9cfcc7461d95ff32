"""What happens to postponed tasks when PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Put leases and places in the queues right; in the caller's transaction."""
    STEP(step=step)
