"""Lets operators pause and resume whole kinds of e-mail, with a reason and an entry in the audit trail.

Both functions raise acting.ActRefused if the actor may not act, or gives no reason.
"""

from typing import Final

from django.db import transaction

from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.mail.actions.emails import MAY_ACT
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import PausedKind

PAUSE: Final = AuditedAction("emails.pause_kind", MAY_ACT, wants_reason=True)
RESUME: Final = AuditedAction("emails.resume_kind", MAY_ACT, wants_reason=True)


def pause(actor: Actor, kind: str, *, why: str) -> bool:
    """Stop sending this kind: no e-mail of the kind is begun from now on. Return False if it was paused already."""
    PAUSE.allow(actor, why)
    with transaction.atomic():
        if is_new := operators.pause(kind, actor.name, why):
            PAUSE.record(actor, kind, why, before=None, after=_pause_of(kind))
        return is_new


def resume(actor: Actor, kind: str, *, why: str) -> bool:
    """Resume sending this kind; return False if it was not paused."""
    RESUME.allow(actor, why)
    with transaction.atomic():
        before = _pause_of(kind)
        if was_paused := operators.resume(kind, actor.name, why):
            RESUME.record(actor, kind, why, before=before, after=None)
        return was_paused


def _pause_of(kind: str) -> State:
    return PausedKind.objects.select_for_update().filter(kind=kind).values("who", "why").first()
