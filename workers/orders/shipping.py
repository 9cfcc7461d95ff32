"""What web code and operators call: ship an order, send what is due, resolve what is unknown.

    from workers.orders import shipping
    shipping.ship(order.pk)

The row of an e-mail is the truth; messages to workers are hints.
"""

from django.db import transaction
from django.db.models.functions import Now

from workers import task_names
from workers.orders import letter
from workers.orders.models import Order, Resolution, ShippedEmail, State
from workers.orders.sending import SendReport, send_due
from workers.publish import publish

__all__ = ["CannotBeResolved", "SendReport", "poke", "resolve", "send_due", "ship"]

# By whether it is said to have arrived.
RESOLVABLE = {True: (State.UNKNOWN,), False: (State.UNKNOWN, State.FAILED)}


class CannotBeResolved(ValueError):
    """The e-mail is not in a state that a person can resolve in this way; the message says in which it is."""


def ship(order_id: int) -> bool:
    """Note that the order is shipped, and write its e-mail into the queue; False if it was shipped before.

    Both are part of the caller's transaction: what rolls back was never shipped, and nobody is told. Called twice,
    also at once, it has the effect of one call. Workers hear of it when it commits.

    Raises Order.DoesNotExist.
    """
    with transaction.atomic():
        if not Order.objects.unshipped().filter(pk=order_id).update(shipped_at=Now()):
            if not Order.objects.filter(pk=order_id).exists():
                raise Order.DoesNotExist(f"There is no order {order_id}.")
            return False
        email = ShippedEmail.objects.create(order_id=order_id, message_id=letter.message_id(order_id))
        transaction.on_commit(lambda: _poke_unless_others_wait(email), robust=True)  # the order is shipped by then
    return True


def resolve(email_id: int, arrived: bool, who: str, why: str) -> ShippedEmail:
    """Write down what a person found out about an e-mail, and what is to be done: it arrived, or send it again.

    `arrived` makes it `sent`; else it is `pending` again, with all attempts ahead of it, and its recipient may get it
    twice: that is the risk which `who` accepts. Only an `unknown` e-mail can be said to have arrived; sent again can
    be a `failed` one, too. Of two at once, the second finds it resolved.

    Raises CannotBeResolved, ValueError where `who` or `why` is blank, and ShippedEmail.DoesNotExist.
    """
    if not who.strip() or not why.strip():
        raise ValueError("Say who resolves it, and why.")
    with transaction.atomic():
        email: ShippedEmail = ShippedEmail.objects.select_for_update().get(pk=email_id)
        if email.state not in RESOLVABLE[arrived]:
            what = "can have arrived" if arrived else "can be sent again"
            raise CannotBeResolved(
                f"Shipped e-mail {email_id} is {email.state}: only {' or '.join(RESOLVABLE[arrived])} ones {what}."
            )
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
        if arrived:
            email.state, email.sent_at = State.SENT, email.sending_since
        else:
            email.state, email.attempts = State.PENDING, 0
            email.next_attempt_at = Now()
            transaction.on_commit(poke, robust=True)
        email.claim_token = email.sending_since = None
        email.save()
    email.refresh_from_db()
    return email


def poke() -> None:
    """Have a worker look for e-mails that are due. The schedule does so every two seconds."""
    publish(task_names.SEND_EMAILS)


def _poke_unless_others_wait(email: ShippedEmail) -> None:
    """Send a message, unless an e-mail that was due before waits still: whoever takes that goes on to this one."""
    if not ShippedEmail.objects.due().filter(pk__lt=email.pk).exists():
        poke()
