"""Lets operators pause and resume whole kinds of e-mail, with a reason and an entry in the audit trail.

Both functions raise acting.ActRefused if the actor may not act, or gives no reason, and acting.Changed if `seen`, the
version that the actor has looked at, is not the kind's version any more; None stands for any version.
"""

from typing import Final

from weir.workers.audit.acting import AuditedAction
from weir.workers.ledger.pausing import PausedKinds, version_of
from weir.workers.mail.actions.emails import MAY_ACT
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import PausedKind

__all__ = ["version_of"]

PAUSE: Final = AuditedAction("emails.pause_kind", MAY_ACT, wants_reason=True)
RESUME: Final = AuditedAction("emails.resume_kind", MAY_ACT, wants_reason=True)

KINDS: Final = PausedKinds(PausedKind, pause=PAUSE, resume=RESUME, begin=operators.pause, end=operators.resume)
pause = KINDS.pause
resume = KINDS.resume
current_version = KINDS.current_version
