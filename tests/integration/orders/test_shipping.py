"""ship: an order and its e-mail's row, together or not at all."""

from collections.abc import Callable

import pytest
from django.db import transaction
from django.db.models import ProtectedError
from pytest_django import Settings

from tests.integration.conftest import InThreads, Message
from tests.integration.mail.shipments import DATABASE, place, ship
from weir.workers import task_names
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = DATABASE

SEND_MESSAGE = (task_names.SEND_EMAILS, ())


def test_shipping_an_order_writes_its_email_and_tells_a_worker(messages: list[Message]) -> None:
    """The message leaves when the transaction has committed."""
    order = place()
    with transaction.atomic():
        assert shipping.ship(order.pk)
        assert messages == []
    order.refresh_from_db()
    email = order.shipped_email
    assert order.shipped_at is not None
    assert (email.state, email.attempts) == (EmailState.PENDING, 0)
    assert email.message_id.startswith(f"<order.shipped-{order.pk}-")
    assert messages == [SEND_MESSAGE]


def test_what_rolls_back_was_never_shipped(messages: list[Message]) -> None:
    """Neither the order's time nor the e-mail stays, and nobody is told."""
    order = place()
    with transaction.atomic():
        shipping.ship(order.pk)
        transaction.set_rollback(True)
    order.refresh_from_db()
    assert order.shipped_at is None
    assert not Email.objects.exists()
    assert messages == []


def test_shipping_twice_is_shipping_once(messages: list[Message], in_threads: InThreads) -> None:
    """One after the other, and at once."""
    order = place()
    assert sum(in_threads(8, lambda _: shipping.ship(order.pk))) == 1
    assert not shipping.ship(order.pk)
    assert Email.objects.filter(kind="order.shipped", key=str(order.pk)).count() == 1
    assert messages == [SEND_MESSAGE]


@pytest.mark.usefixtures("messages")
def test_an_order_that_does_not_exist_cannot_be_shipped() -> None:
    """The caller hears which."""
    with pytest.raises(Order.DoesNotExist, match="order 4711"):
        shipping.ship(4711)


@pytest.mark.usefixtures("messages")
def test_an_order_can_be_shipped_whatever_the_mail_settings_are(settings: Settings) -> None:
    """Nobody at the counter is to blame for them."""
    settings.DEFAULT_FROM_EMAIL = "nobody"
    assert ship().state == EmailState.PENDING


@pytest.mark.parametrize("delete", [lambda order: order.delete(), lambda _order: Order.objects.all().delete()])
def test_an_order_that_has_an_e_mail_is_not_deleted(delete: Callable[[Order], object]) -> None:
    """The e-mail is the proof of what was sent; without the order it would be about nothing."""
    order = Order.objects.create(number="A-1", customer_email="ada@example.com")
    shipping.ship(order.pk)
    with pytest.raises(ProtectedError, match="Order A-1 has an e-mail"):
        delete(order)
    assert Order.objects.get().shipped_email.key == str(order.pk)
