"""Lets operators resolve and redirect e-mails, each time with a reason and an entry in the audit trail.

Besides that entry, `resolving` stores a Resolution: what was known about the e-mail at that moment. The audit trail is
kept when a recipient is forgotten, so it has no address: addresses are removed from reasons, and a change of recipient
is recorded as two hashes. Functions raise acting.ActRefused if the actor may not act, or gives no reason.
"""

from collections.abc import Mapping
from typing import Final

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.ledger.resolving import version_of
from weir.workers.mail import addresses, resolving, suppression
from weir.workers.mail.models import Act, Email

__all__ = ["version_of"]

MAY_ACT: Final = "weir_mail.resolve_email"
# A right of its own beside MAY_ACT, because an actor who names the recipient can read the e-mail.
MAY_REDIRECT: Final = "weir_mail.redirect_email"
RESOLVE: Final[Mapping[Act, AuditedAction]] = {
    act: AuditedAction(f"emails.{act.value.replace(' ', '_')}", MAY_ACT, wants_reason=True)
    for act in (Act.ARRIVED, Act.RESEND, Act.GIVE_UP, Act.CANCEL, Act.CORRECT)
}
REDIRECT: Final = AuditedAction("emails.redirect", MAY_REDIRECT, wants_reason=True)


def resolve(
    actor: Actor,
    email_id: int,
    act: Act,
    *,
    why: str,
    to: str | None = None,
    may_be_late: bool = True,
    seen: str | None = None,
) -> Email:
    """Record what became of an e-mail, or decide what happens to it next: see resolving.resolve.

    `to` needs a right of its own, even if the e-mail has that address already: the actor must not learn which address
    the e-mail has.

    `seen` is the version that the actor has looked at. Raises acting.Changed if the e-mail was resolved, or has ended
    again, since then: for example, a refused e-mail that was resent may be unknown by now, and to resend an unknown
    e-mail is another decision. Of two actors who decide at once, the second is refused.
    """
    action = RESOLVE[act]
    action.allow(actor, why)
    if to is not None:
        action = REDIRECT
        action.allow(actor, why)
    with transaction.atomic():
        looked_at = Email.objects.select_for_update().get(pk=email_id)
        acting.refuse_changed(f"E-mail {email_id}", version_of(looked_at), seen)
        before = _state_of(looked_at)
        email = resolving.resolve(email_id, act, actor.name, why, to=to, may_be_late=may_be_late)
        reason = addresses.redacted(addresses.redacted(why, looked_at.recipient), email.recipient)
        # A correction of a waiting e-mail is recorded, too, though neither the e-mail's state nor its phase changes.
        after = _state_of(email)
        if to is not None:
            before, after = _with_recipient(before, looked_at), _with_recipient(after, email)
        action.record(actor, f"e-mail {email_id}", reason, before=before, after=after)
        return email


def _state_of(email: Email) -> Mapping[str, object]:
    return {"state": email.state, "phase": email.phase}


def _with_recipient(state: Mapping[str, object], email: Email) -> Mapping[str, object]:
    return {**state, "recipient": suppression.address_hash(email.recipient)}
