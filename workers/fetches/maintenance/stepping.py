"""What becomes of fetches where PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Put leases, and the times at which queued fetches become due, right; in the caller's transaction."""
    STEP(step=step)
