"""Lets operators resolve effects and pause kinds, each time with a reason and an entry in the audit trail.

Functions raise acting.ActRefused if the actor may not act, or gives no reason, and acting.Changed if `seen`, the
version that the actor has looked at, is not the effect's version any more; None stands for any version.
"""

from typing import Final

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.effects import kinds, queueing, resolving
from weir.workers.effects.models import Act, Effect, PausedEffectKind

RESOLVE: Final = resolving.ACTIONS
PAUSE: Final = AuditedAction("effects.pause_kind", resolving.MAY_ACT, wants_reason=True)
RESUME: Final = AuditedAction("effects.resume_kind", resolving.MAY_ACT, wants_reason=True)


def resolve(actor: Actor, effect_id: int, act: Act, *, why: str, seen: str | None = None) -> Effect:
    """Record what became of an effect, or decide what happens to it next: see resolving.resolve."""
    RESOLVE[act].allow(actor, why)
    with transaction.atomic():
        looked_at = Effect.objects.select_for_update().get(pk=effect_id)
        acting.refuse_changed(f"Effect {effect_id}", version_of(looked_at), seen)
        return resolving.resolve_as(actor, effect_id, act, why)


def version_of(effect: Effect) -> str:
    """Return a version of the effect that changes whenever the effect ends, in whatever state, or is resolved."""
    last = effect.resolutions.order_by("-pk").values_list("pk", flat=True).first()
    return acting.version({"ended_at": effect.ended_at, "resolution": last})


def pause(actor: Actor, kind: str, *, why: str) -> bool:
    """Begin no more effects of this kind. Return False if it was paused already: then the first reason stays.

    Effects that a worker has claimed are still begun. Raises kinds.UnknownEffectKind.
    """
    kinds.get(kind)
    PAUSE.allow(actor, why)
    with transaction.atomic():
        said = {"who": actor.name, "why": why.strip()}
        paused, is_new = PausedEffectKind.objects.get_or_create(kind=kind, defaults=said)
        if is_new:
            PAUSE.record(actor, kind, why, before=None, after=_said(paused))
        return is_new


def resume(actor: Actor, kind: str, *, why: str) -> bool:
    """Resume this kind; return False if it was not paused. The kind need not be registered any more."""
    RESUME.allow(actor, why)
    with transaction.atomic():
        paused = PausedEffectKind.objects.select_for_update().filter(kind=kind).first()
        if paused is None:
            return False
        RESUME.record(actor, kind, why, before=_said(paused), after=None)
        paused.delete()
        transaction.on_commit(queueing.wake, robust=True)
        return True


def _said(paused: PausedEffectKind) -> State:
    return {"who": paused.who, "why": paused.why}
