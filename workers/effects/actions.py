"""Lets operators resolve effects, pause kinds and forget users, with a reason and an entry in the audit trail.

Functions raise acting.ActRefused if the actor may not act, or gives no reason, and acting.Changed if `seen`, the
version that the actor has looked at, is not the effect's or the kind's version any more; None stands for any version.
"""

import math
from typing import Final
from uuid import UUID

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.effects import kinds, queueing, resolving
from weir.workers.effects.maintenance import forgetting
from weir.workers.effects.models import Act, Effect, PausedEffectKind
from weir.workers.effects.names import MAY_ACT
from weir.workers.ledger.pausing import PausedKinds
from weir.workers.ledger.pausing import version_of as version_of_kind
from weir.workers.ledger.resolving import version_of

__all__ = ["version_of", "version_of_kind"]

RESOLVE: Final = resolving.ACTIONS
PAUSE: Final = AuditedAction("effects.pause_kind", MAY_ACT, wants_reason=True)
RESUME: Final = AuditedAction("effects.resume_kind", MAY_ACT, wants_reason=True)
FORGET: Final = forgetting.ACTION


def resolve(actor: Actor, effect_id: int, act: Act, *, why: str, seen: str | None = None) -> Effect:
    """Record what became of an effect, or decide what happens to it next: see resolving.resolve."""
    RESOLVE[act].allow(actor, why)
    with transaction.atomic():
        looked_at = Effect.objects.select_for_update().get(pk=effect_id)
        acting.refuse_changed(f"Effect {effect_id}", version_of(looked_at), seen)
        return resolving.resolve_as(actor, effect_id, act, why)


def forget(actor: Actor, user: str | int | UUID, *, why: str, within_s: float = math.inf) -> forgetting.Forgotten:
    """Remove what effects say about a user, in several transactions: see forgetting.forget_user."""
    FORGET.allow(actor, why)
    return forgetting.forget_as(actor, user, why, within_s=within_s)


def _begin_pause(kind: str, who: str, why: str) -> bool:
    """Pause a kind. Raises kinds.UnknownEffectKind."""
    kinds.get(kind)
    _, is_new = PausedEffectKind.objects.get_or_create(kind=kind, defaults={"who": who, "why": why.strip()})
    return is_new


def _end_pause(kind: str, _who: str, _why: str) -> bool:
    is_gone, _ = PausedEffectKind.objects.filter(kind=kind).delete()
    if is_gone:
        transaction.on_commit(queueing.wake, robust=True)
    return bool(is_gone)


KINDS: Final = PausedKinds(PausedEffectKind, pause=PAUSE, resume=RESUME, begin=_begin_pause, end=_end_pause)
pause = KINDS.pause
resume = KINDS.resume
current_version = KINDS.current_version
