"""ship: an order and its e-mail's row, together or not at all; resolve: what a person says about an unknown one."""

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, transaction

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import InThreads, Message
from tests.integration.mail import DATABASE, accepted, place, ship
from workers import task_names
from workers.orders import shipping
from workers.orders.models import Order, Phase, Resolution, ShippedEmail, State
from workers.orders.shipping import CannotBeResolved

pytestmark = DATABASE

POKE = (task_names.SEND_EMAILS, ())


def unknown(word: str = "cut-accepted") -> ShippedEmail:
    """Return an e-mail of which nobody knows whether it arrived."""
    email = ship(word)
    shipping.send_due()
    email.refresh_from_db()
    assert email.state == State.UNKNOWN
    return email


def test_shipping_an_order_writes_its_email_and_tells_a_worker(messages: list[Message]) -> None:
    """The message leaves when the transaction has committed."""
    order = place()
    with transaction.atomic():
        assert shipping.ship(order.pk)
        assert messages == []
    order.refresh_from_db()
    email = ShippedEmail.objects.get(order=order)
    assert order.shipped_at is not None
    assert (email.state, email.attempts) == (State.PENDING, 0)
    assert email.message_id.startswith(f"<order-{order.pk}-shipped-")
    assert messages == [POKE]


def test_what_rolls_back_was_never_shipped(messages: list[Message]) -> None:
    """Neither the order's time nor the e-mail stays, and nobody is told."""
    order = place()
    with transaction.atomic():
        shipping.ship(order.pk)
        transaction.set_rollback(True)
    order.refresh_from_db()
    assert order.shipped_at is None
    assert not ShippedEmail.objects.exists()
    assert messages == []


def test_shipping_twice_is_shipping_once(messages: list[Message], in_threads: InThreads) -> None:
    """One after the other, and at once."""
    order = place()
    assert sum(in_threads(8, lambda _: shipping.ship(order.pk))) == 1
    assert not shipping.ship(order.pk)
    assert ShippedEmail.objects.filter(order=order).count() == 1
    assert messages == [POKE]


@pytest.mark.usefixtures("messages")
def test_an_order_that_does_not_exist_cannot_be_shipped() -> None:
    """The caller hears which."""
    with pytest.raises(Order.DoesNotExist, match="order 4711"):
        shipping.ship(4711)


def test_while_an_older_email_is_due_no_further_message_is_sent(messages: list[Message]) -> None:
    """Whoever takes the older one goes on to the others: many orders at once cost one message."""
    for _ in range(5):
        ship()
    assert messages == [POKE]
    ShippedEmail.objects.update(state=State.FAILED, last_reply="no")
    ship()
    assert messages == [POKE, POKE]


@pytest.mark.usefixtures("messages")
def test_who_found_out_that_it_arrived_makes_it_sent(mail: MailServer) -> None:
    """With the time at which its transmission began; the row keeps who said so, why, and what was known."""
    email = unknown()
    since = email.sending_since
    resolved = shipping.resolve(email.pk, arrived=True, who="kim", why="In the mail server's log")
    assert (resolved.state, resolved.sent_at, resolved.claim_token) == (State.SENT, since, None)
    (said,) = Resolution.objects.filter(email=email)
    assert (said.arrived, said.who, said.why) == (True, "kim", "In the mail server's log")
    assert (said.state, said.phase, said.claimed_by) == (State.UNKNOWN, Phase.AFTER_DOT, email.claimed_by)
    assert "closed" in said.last_reply
    shipping.send_due()
    assert accepted(mail, email) == 1


def test_who_accepts_the_risk_has_it_sent_again(mail: MailServer, messages: list[Message]) -> None:
    """At once, with all attempts ahead of it, and under the same Message-ID."""
    email = unknown("cut-accepted")
    Order.objects.filter(pk=email.order_id).update(customer_email=f"plain.again-{email.pk}@customers.example")
    messages.clear()
    resolved = shipping.resolve(email.pk, arrived=False, who="kim", why="The customer says no")
    assert (resolved.state, resolved.attempts, resolved.sending_since) == (State.PENDING, 0, None)
    assert messages == [POKE]
    assert shipping.send_due().sent == 1
    assert accepted(mail, email) == 2
    assert ShippedEmail.objects.get(pk=email.pk).message_id == email.message_id


@pytest.mark.usefixtures("messages", "mail")
def test_a_failed_email_can_be_sent_again_but_cannot_have_arrived() -> None:
    """A person has put the address right."""
    email = ship("refuse")
    shipping.send_due()
    with pytest.raises(CannotBeResolved, match="is failed"):
        shipping.resolve(email.pk, arrived=True, who="kim", why="It seems so")
    Order.objects.filter(pk=email.order_id).update(customer_email=f"plain.right-{email.pk}@customers.example")
    shipping.resolve(email.pk, arrived=False, who="kim", why="The address is right now")
    assert shipping.send_due().sent == 1


@pytest.mark.usefixtures("messages", "mail")
def test_only_what_is_unknown_can_be_resolved_and_only_once(in_threads: InThreads) -> None:
    """Of two at once, one is told that there is nothing left to say."""
    waiting = ship()
    for arrived in (True, False):
        with pytest.raises(CannotBeResolved, match="is pending"):
            shipping.resolve(waiting.pk, arrived=arrived, who="kim", why="Impatience")
    shipping.send_due()
    email = unknown()

    def say(number: int) -> bool:
        try:
            shipping.resolve(email.pk, arrived=bool(number % 2), who=f"{number}", why="It seems so")
        except CannotBeResolved:
            return False
        return True

    assert sum(in_threads(6, say)) == 1
    assert Resolution.objects.count() == 1


@pytest.mark.usefixtures("messages", "mail")
@pytest.mark.parametrize(("who", "why"), [("", "x"), ("kim", ""), ("  ", "x"), ("kim", " \n")])
def test_who_and_why_must_be_said(who: str, why: str) -> None:
    """Else the row could not tell later."""
    email = unknown()
    with pytest.raises(ValueError, match="Say who"):
        shipping.resolve(email.pk, arrived=True, who=who, why=why)
    assert not Resolution.objects.exists()


@pytest.mark.usefixtures("messages")
def test_an_email_that_does_not_exist_cannot_be_resolved() -> None:
    """The caller hears it."""
    with pytest.raises(ShippedEmail.DoesNotExist):
        shipping.resolve(4711, arrived=True, who="kim", why="x")


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"state": "lost"}, "state_known"),
        ({"state": State.SENT}, "sent_has_sent_at"),
        ({"state": State.CLAIMED}, "held_has_token|claimed_has_lease"),
        ({"state": State.FAILED}, "failed_says_why"),
        ({"state": State.UNKNOWN}, "unknown_says|held_has_token|sending_has_since"),
        ({"state": State.SENDING}, "held_has_token|sending_has_since"),
        ({"claim_token": "00000000-0000-0000-0000-000000000001"}, "held_has_token"),
    ],
)
def test_the_database_refuses_a_state_that_contradicts_itself(changes: dict[str, str], constraint: str) -> None:
    """Whoever writes it, and by whatever way."""
    email = ship()
    with pytest.raises(IntegrityError, match=constraint):
        ShippedEmail.objects.filter(pk=email.pk).update(**changes)


@pytest.mark.usefixtures("messages")
def test_an_order_can_be_shipped_whatever_the_mail_settings_are(settings: LazySettings) -> None:
    """Nobody at the counter is to blame for them."""
    settings.DEFAULT_FROM_EMAIL = "nobody"
    assert ship().state == State.PENDING
