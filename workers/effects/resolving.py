"""Records what people say about an effect, in the audit trail, too, and changes the effect accordingly."""

from collections.abc import Mapping
from functools import partial
from typing import Final
from uuid import uuid4

from django.db import transaction
from django.db.models.functions import Now

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.effects import kinds, queueing, users
from weir.workers.effects.models import Act, Effect, EffectResolution
from weir.workers.effects.names import MAY_ACT, NAMES, EffectState
from weir.workers.effects.on_done import call_on_done
from weir.workers.ledger.resolving import CannotBeResolved, Resolver

__all__ = ["CannotBeResolved"]

ACTIONS: Final[Mapping[Act, AuditedAction]] = {
    act: AuditedAction(f"effects.{act.value.replace(' ', '_')}", MAY_ACT, wants_reason=True) for act in Act
}

# The states in which an effect must be for each act.
ALLOWED: Mapping[Act, tuple[EffectState, ...]] = {
    Act.DONE: (EffectState.UNKNOWN,),
    Act.AGAIN: (EffectState.UNKNOWN, EffectState.FAILED, EffectState.CANCELLED, EffectState.EXPIRED),
    Act.ASK: (EffectState.UNKNOWN,),
    Act.GIVE_UP: (EffectState.UNKNOWN,),
    Act.CANCEL: (EffectState.PENDING, EffectState.CLAIMED),
}
# How a refusal continues after "only unknown ones".
_CAN: Mapping[Act, str] = {
    Act.DONE: "can have happened",
    Act.AGAIN: "can be done again",
    Act.ASK: "can be asked about",
    Act.GIVE_UP: "can be given up",
    Act.CANCEL: "can be cancelled",
}


class _Effects(Resolver[Effect, Act]):
    """What people say about effects."""

    allowed = ALLOWED
    can = _CAN
    unless_asked = (Act.CANCEL,)

    def refusal(self, row: Effect, act: Act) -> str:
        if refused := super().refusal(row, act):
            return refused
        if act == Act.ASK and not any(kind.probe for kind in kinds.registered() if kind.name == row.kind):
            return f"Effect {row.pk} cannot be asked about: {row.kind} has no probe."
        if act == Act.AGAIN and row.forgotten_at and not row.user_key:
            return f"Effect {row.pk} cannot be done again: what it was to do was forgotten with its user."
        return ""

    def wake(self) -> None:
        queueing.wake()

    def apply(self, row: Effect, act: Act, why: str, **_own: object) -> None:  # noqa: ARG002  it is kept elsewhere
        if act == Act.DONE:
            row.done_at = row.begun_at
            self.end_claim(row, EffectState.DONE)
        elif act == Act.AGAIN:
            if not _may_have_happened(row):  # else the other side may still know what it did under the old key
                row.idempotency_key = uuid4()
            self.repeat(row, may_be_late=True)
        elif act == Act.ASK:
            self.end_claim(row, EffectState.PENDING)
            row.next_attempt_at, row.ask_until = Now(), Now() + kinds.get(row.kind).probe_for
        else:
            self.end_claim(row, EffectState.FAILED if act == Act.GIVE_UP else EffectState.CANCELLED)

    def write_down(self, row: Effect, act: Act, who: str, why: str, **_own: object) -> None:
        EffectResolution.objects.create(
            effect=row,
            act=act,
            who=who.strip(),
            why=why.strip(),
            state=row.state,
            phase=row.phase,
            last_reply=row.last_reply,
            claimed_by=row.claimed_by,
        )


def _may_have_happened(effect: Effect) -> bool:
    """Return whether the effect is unknown, or was given up as such; its last resolution is the one being made."""
    before = effect.resolutions.order_by("-pk").values_list("act", flat=True)[1:2]
    return effect.state == EffectState.UNKNOWN or (effect.state == EffectState.FAILED and Act.GIVE_UP in before)


_EFFECTS = _Effects(Effect, NAMES)
refusal = _EFFECTS.refusal


def resolve(effect_id: int, act: Act, who: str, why: str) -> Effect:
    """Act on what a person found out about an effect. Who did what, and why, is recorded in the same transaction.

    - DONE: an unknown effect becomes `done`.
    - AGAIN: an effect that ended is `pending` again, with all attempts ahead of it. If it was unknown, or was given up,
      it may happen twice: the person accepts that risk, and it keeps its idempotency key. If it had certainly not
      happened, it has a new one, because the other side may answer the old one as before. It does not expire any more.
    - ASK: the probe of an unknown effect is asked again.
    - GIVE_UP: an unknown effect becomes `failed`. It is not tried again, and nobody knows whether it happened.
    - CANCEL: an effect that no worker has begun becomes `cancelled`.

    The audit trail names `who` with the door `code`. No permission is asked for, so WEIR_OPS_READ_ONLY forbids nothing.

    Of two calls at the same time, the second waits, and finds the effect resolved. Raises CannotBeResolved, ValueError
    if `who` or `why` is blank, and Effect.DoesNotExist.
    """
    return resolve_as(acting.of_code(who), effect_id, act, why)


def resolve_as(actor: Actor, effect_id: int, act: Act, why: str) -> Effect:
    """Resolve the effect as `resolve` does, for an actor who was allowed to."""
    with transaction.atomic():
        effect = _EFFECTS.resolve(effect_id, act, actor.name, why)
        was = effect.resolutions.latest("pk")
        before, after = ({"state": each.state, "phase": each.phase} for each in (was, effect))
        reason = users.redacted(why, effect.user_key)  # the trail is kept when the user is forgotten
        ACTIONS[act].record(actor, f"effect {effect_id}", reason, before=before, after=after)
        if effect.on_done:
            transaction.on_commit(partial(call_on_done, [effect_id]), robust=True)
    return effect
