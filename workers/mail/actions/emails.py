"""Lets operators and code resolve and redirect e-mails, each time with a reason and an entry in the audit trail.

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
_ACTIONS: Final[Mapping[Act, AuditedAction]] = {
    act: AuditedAction(f"emails.{act.value.replace(' ', '_')}", MAY_ACT, wants_reason=True) for act in Act
}
# Operators leave it to reports to say that an e-mail came back.
RESOLVE: Final[Mapping[Act, AuditedAction]] = {act: action for act, action in _ACTIONS.items() if act != Act.BOUNCED}
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
    """Record what became of an e-mail, or decide what happens to it next: see resolve_by_code.

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
        return _recorded(action, actor, looked_at, act, why, to=to, may_be_late=may_be_late)


def resolve_by_code(
    email_id: int,
    act: Act,
    who: str,
    why: str,
    *,
    to: str | None = None,
    may_be_late: bool = True,
    wakes: bool = True,
) -> Email:
    """Act on what a person found out about an e-mail; record who did what, and why, in the same transaction.

    - ARRIVED: an unknown e-mail becomes `sent`.
    - RESEND: an e-mail that ended is `pending` again, with all attempts ahead of it, and is sent as it was rendered. If
      it is unknown, or was given up, its recipient may get it twice: the operator accepts that risk. The e-mail does
      not expire any more, because the operator has decided to send it, unless the caller says that it must not be late
      (`may_be_late=False`). The same is true of an e-mail that ended and is corrected.
    - GIVE_UP: an unknown e-mail becomes `failed`. It is not sent again, and nobody knows whether it arrived.
      What a digest told is unread again, and so it is if a digest is sent again: it then tells what is still unread.
    - CANCEL: an e-mail that no worker has begun becomes `cancelled`.
    - CORRECT: an e-mail that was certainly not accepted, or came back, is rendered anew before it is sent, to the
      address `to` if it is given. If the e-mail was not tried yet, it is sent at the time that was planned. An e-mail
      that was given up may have arrived, so it cannot be corrected.
    - BOUNCED: a sent or unknown e-mail that came back becomes `bounced`; `why` is what the report says.

    The audit trail names `who` with the door `code`. No permission is asked for, so WEIR_OPS_READ_ONLY forbids nothing.
    A mailer is told of an e-mail that is to be sent, unless the caller tells one itself (`wakes=False`).

    Of two calls at the same time, the second waits, and finds the e-mail resolved. Raises CannotBeResolved,
    addresses.CannotBeWritten for a bad address, ValueError if `who` or `why` is blank or `to` is given for another act,
    and Email.DoesNotExist.
    """
    action = _ACTIONS[act] if to is None else REDIRECT
    actor = acting.of_code(who)
    with transaction.atomic():
        was = Email.objects.select_for_update().get(pk=email_id)
        return _recorded(action, actor, was, act, why, to=to, may_be_late=may_be_late, wakes=wakes)


def _recorded(
    action: AuditedAction, actor: Actor, was: Email, act: Act, why: str, *, to: str | None, **options: bool
) -> Email:
    """Resolve an e-mail that is locked, and write the entry, in the caller's transaction."""
    before = _state_of(was)
    email = resolving.resolve(was.pk, act, actor.name, why, to=to, **options)
    reason = addresses.redacted(addresses.redacted(why, was.recipient), email.recipient)
    # A correction of a waiting e-mail is recorded, too, though neither the e-mail's state nor its phase changes.
    after = _state_of(email)
    if to is not None:
        before, after = _with_recipient(before, was), _with_recipient(after, email)
    action.record(actor, f"e-mail {was.pk}", reason, before=before, after=after)
    return email


def _state_of(email: Email) -> Mapping[str, object]:
    return {"state": email.state, "phase": email.phase}


def _with_recipient(state: Mapping[str, object], email: Email) -> Mapping[str, object]:
    return {**state, "recipient": suppression.address_hash(email.recipient)}
