"""Corrects the times of effects when PostgreSQL's clock was stepped."""

from datetime import timedelta

from django.db.models import F

from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES
from weir.workers.ledger.stepping import STEP

_STEP = STEP.with_names(NAMES._asdict())


def put_right(*, step: timedelta, **_signal: object) -> None:
    """Correct leases, and the times at which effects and kept calls become due, in the caller's transaction."""
    _STEP(step=step)
    Effect.objects.filter(on_done_again_at__isnull=False).update(
        on_done_again_at=F("on_done_again_at") + min(step, timedelta())
    )
