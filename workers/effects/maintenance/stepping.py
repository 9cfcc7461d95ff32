"""Corrects the times of effects when PostgreSQL's clock was stepped."""

from datetime import timedelta

from weir.workers.effects.names import NAMES
from weir.workers.ledger.stepping import STEP

_STEP = STEP.with_names(NAMES._asdict())


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct leases, and the times at which effects become due, in the caller's transaction."""
    _STEP(step=step)
