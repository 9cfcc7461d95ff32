"""What happens to fetches when PostgreSQL's clock is stepped."""

from datetime import timedelta

from weir.postgres.statements import Statement

STEP = Statement("step", commits=False)


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct leases, and the times at which queued fetches become due, in the caller's transaction."""
    STEP(step=step)
