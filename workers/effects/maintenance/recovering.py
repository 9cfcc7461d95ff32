"""Makes effects unknown if PostgreSQL has forgotten whether they happened. This is a part of a recovery."""

from datetime import datetime, timedelta

from django.db.models.functions import Now

from weir.conf import settings
from weir.workers.effects import kinds
from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES, EffectState, Phase
from weir.workers.ledger import recovering


def make_unknown(*, since: datetime, **_signal: object) -> None:
    """Make all effects unknown that may have happened after `since`, and have those asked about that have a probe.

    A process that has begun one of them may still be at work, so a probe is asked after WEIR_EFFECT_UNKNOWN_AFTER.
    """
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have happened."
    recovering.make_unknown(NAMES, reply)
    from_now = timedelta(seconds=settings.WEIR_EFFECT_UNKNOWN_AFTER)
    for kind in kinds.registered():
        if kind.probe:
            Effect.objects.filter(kind=kind.name, state=EffectState.UNKNOWN, phase=Phase.FORGOTTEN).update(
                state=EffectState.PENDING,
                claim_token=None,
                begun_at=None,
                ended_at=None,
                next_attempt_at=Now() + from_now,
                ask_until=Now() + from_now + kind.probe_for,
            )
