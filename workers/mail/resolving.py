"""What an operator says about an e-mail that ended `unknown` or `failed`."""

from django.db import transaction
from django.db.models.functions import Now

from workers.mail import outbox
from workers.mail.models import Email, Resolution, State

# By whether the operator says that it arrived.
RESOLVABLE = {True: (State.UNKNOWN,), False: (State.UNKNOWN, State.FAILED)}


class CannotBeResolved(ValueError):
    """The e-mail is not in a state that can be resolved in this way; the message says in which it is."""


def resolve(email_id: int, arrived: bool, who: str, why: str) -> Email:
    """Write down what an operator found out about an e-mail, and what is to be done: it arrived, or send it again.

    `arrived` makes it `sent`; else it is `pending` again, with all attempts ahead of it, and its recipient may get it
    twice: that is the risk that the operator accepts. Only an `unknown` e-mail can be said to have arrived; a `failed`
    one, too, can be sent again. Of two calls at once, the second finds it resolved.

    Raises CannotBeResolved, ValueError if `who` or `why` is blank, and Email.DoesNotExist.
    """
    if not who.strip() or not why.strip():
        raise ValueError("Say who resolves it, and why.")
    with transaction.atomic():
        email: Email = Email.objects.select_for_update().get(pk=email_id)
        if email.state not in RESOLVABLE[arrived]:
            what = "can have arrived" if arrived else "can be sent again"
            raise CannotBeResolved(
                f"E-mail {email_id} is {email.state}: only {' or '.join(RESOLVABLE[arrived])} ones {what}."
            )
        _write_down(email, arrived, who, why)
        if arrived:
            email.state, email.sent_at = State.SENT, email.sending_since
        else:
            email.state, email.attempts = State.PENDING, 0
            email.next_attempt_at = Now()
            transaction.on_commit(outbox.wake_mailer, robust=True)
        email.claim_token = email.sending_since = None
        email.save()
    email.refresh_from_db()
    return email


def _write_down(email: Email, arrived: bool, who: str, why: str) -> None:
    """Write the resolution, with what was known of the e-mail until now."""
    Resolution.objects.create(
        email=email,
        arrived=arrived,
        who=who.strip(),
        why=why.strip(),
        state=email.state,
        phase=email.phase,
        last_reply=email.last_reply,
        claimed_by=email.claimed_by,
    )
