"""Lets operators pause and resume whole kinds of e-mail, with a reason and an entry in the audit trail.

Both functions raise acting.ActRefused if the actor may not act, or gives no reason, and acting.Changed if `seen`, the
version that the actor has looked at, is not the kind's version any more; None stands for any version.
"""

from datetime import datetime
from typing import Final

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction, State
from weir.workers.mail.actions.emails import MAY_ACT
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import PausedKind

PAUSE: Final = AuditedAction("emails.pause_kind", MAY_ACT, wants_reason=True)
RESUME: Final = AuditedAction("emails.resume_kind", MAY_ACT, wants_reason=True)


def pause(actor: Actor, kind: str, *, why: str, seen: str | None = None) -> bool:
    """Stop sending this kind: no e-mail of the kind is begun from now on. Return False if it was paused already.

    Then the first reason stays. Of two actors who pause a kind at once, the second gets False, too, and not
    acting.Changed: a kind that is not paused has no row that the first one could have locked.
    """
    PAUSE.allow(actor, why)
    with transaction.atomic():
        paused = _pause_of(kind)
        acting.refuse_changed(kind, version_of(paused.paused_at if paused else None), seen)
        if is_new := operators.pause(kind, actor.name, why):
            PAUSE.record(actor, kind, why, before=None, after=_said(_pause_of(kind)))
        return is_new


def resume(actor: Actor, kind: str, *, why: str, seen: str | None = None) -> bool:
    """Resume sending this kind; return False if it was not paused."""
    RESUME.allow(actor, why)
    with transaction.atomic():
        paused = _pause_of(kind)
        acting.refuse_changed(kind, version_of(paused.paused_at if paused else None), seen)
        if was_paused := operators.resume(kind, actor.name, why):
            RESUME.record(actor, kind, why, before=_said(paused), after=None)
        return was_paused


def version_of(paused_at: datetime | None) -> str:
    """Return the version of a kind by when it was paused; None: it is not paused."""
    return acting.version({"paused_at": paused_at})


def current_version(kind: str) -> str:
    """Return the version that the kind has now."""
    return version_of(PausedKind.objects.filter(kind=kind).values_list("paused_at", flat=True).first())


def _pause_of(kind: str) -> PausedKind | None:
    return PausedKind.objects.select_for_update().filter(kind=kind).first()


def _said(pause: PausedKind | None) -> State:
    return None if pause is None else {"who": pause.who, "why": pause.why}
