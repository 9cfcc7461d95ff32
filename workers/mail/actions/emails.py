"""What operators say about e-mails, and order for them, each with a reason and an entry in the audit trail.

E-mails have records of their own, too: resolving records what was known at that moment. The audit trail is kept when a
recipient is forgotten, so it has no address: reasons are redacted, and for a change of recipient it has the hashes.
Raises acting.ActRefused if the actor may not do that, or gives no reason.
"""

from collections.abc import Mapping
from typing import Final

from django.db import transaction

from weir.workers.audit import acting
from weir.workers.audit.acting import Actor, AuditedAction
from weir.workers.mail import addresses, resolving, suppression
from weir.workers.mail.models import Act, Email

MAY_ACT: Final = "weir_mail.resolve_email"
MAY_REDIRECT: Final = "weir_mail.redirect_email"  # beside MAY_ACT: an actor who names the recipient can read it
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
    """Say what became of an e-mail, or what is to become of it, as resolving.resolve does.

    `to` needs a right of its own, even if it is the address that the e-mail has: the actor is not told whether it is.

    `seen` is the version that the actor has looked at. Raises acting.Changed if the e-mail has ended again since: a
    refused one that was sent again may be unknown by now, and sending that again is another decision.
    """
    action = RESOLVE[act]
    action.allow(actor, why)
    if to is not None:
        action = REDIRECT
        action.allow(actor, why)
    with transaction.atomic():
        looked_at = Email.objects.select_for_update().get(pk=email_id)
        if seen is not None and seen != version_of(looked_at):
            raise acting.Changed(f"E-mail {email_id} was sent or resolved meanwhile: look at it again.")
        before = _state_of(looked_at)
        email = resolving.resolve(email_id, act, actor.name, why, to=to, may_be_late=may_be_late)
        reason = addresses.redacted(addresses.redacted(why, looked_at.recipient), email.recipient)
        # A correction of a waiting e-mail has an entry, too, though neither its state nor its phase changes.
        after = _state_of(email)
        if to is not None:
            before, after = _with_recipient(before, looked_at), _with_recipient(after, email)
        action.record(actor, f"e-mail {email_id}", reason, before=before, after=after)
        return email


def version_of(email: Email) -> str:
    """Return a version that differs if the e-mail has ended again, in whatever state."""
    return acting.version({"ended_at": email.ended_at})


def _state_of(email: Email) -> Mapping[str, object]:
    return {"state": email.state, "phase": email.phase}


def _with_recipient(state: Mapping[str, object], email: Email) -> Mapping[str, object]:
    return {**state, "recipient": suppression.address_hash(email.recipient)}
