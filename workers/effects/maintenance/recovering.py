"""Makes effects unknown if PostgreSQL has forgotten whether they happened. This is a part of a recovery."""

from datetime import datetime, timedelta

from django.db.models.functions import Now

from weir.conf import settings
from weir.postgres.timeline import gate
from weir.workers.effects import kinds
from weir.workers.effects.kinds import EffectKind
from weir.workers.effects.models import Effect
from weir.workers.effects.names import NAMES, EffectState, Phase
from weir.workers.ledger import recovering


def make_unknown(*, since: datetime, **_signal: object) -> None:
    """Make all effects unknown that may have happened after `since`, and have those asked about that have a probe.

    A process that has begun one of them may still be at work, so a probe is asked after WEIR_EFFECT_UNKNOWN_AFTER.
    """
    reply = f"PostgreSQL has forgotten what happened since {since:%Y-%m-%d %H:%M:%S} UTC: this may have happened."
    recovering.make_unknown(NAMES, reply)
    for kind in kinds.registered():
        if kind.probe:
            _have_asked(kind)


def _have_asked(kind: EffectKind) -> None:
    """Have the probe of this kind asked about what is forgotten. Short batches: the lease of the recovery is short."""
    forgotten = Effect.objects.filter(kind=kind.name, state=EffectState.UNKNOWN, phase=Phase.FORGOTTEN)
    from_now = timedelta(seconds=settings.WEIR_EFFECT_UNKNOWN_AFTER)
    while gate.renew() and (batch := list(forgotten.order_by("begun_at").values_list("pk")[: recovering.BATCH])):
        forgotten.filter(pk__in=[pk for (pk,) in batch]).update(
            state=EffectState.PENDING,
            claim_token=None,
            begun_at=None,
            ended_at=None,
            next_attempt_at=Now() + from_now,
            ask_until=Now() + from_now + kind.probe_for,
        )
