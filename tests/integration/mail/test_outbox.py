"""The outbox's rows: what is queued once, of what a worker hears, and what the database refuses."""

import pytest
from django.db import IntegrityError, transaction

from tests.integration.conftest import Message
from tests.integration.mail.shipments import DATABASE, place, ship
from workers import task_names
from workers.mail import kinds, outbox
from workers.mail.models import Email, State

pytestmark = DATABASE

SEND_MESSAGE = (task_names.SEND_EMAILS, ())


def test_an_email_is_queued_once_for_each_key(messages: list[Message]) -> None:
    """A second one of the same kind is refused, and the message about the first one is sent."""
    key = str(place().pk)
    email = outbox.add("order.shipped", key)
    with pytest.raises(IntegrityError, match="email_kind_key_unique"):
        outbox.add("order.shipped", key)
    assert Email.objects.get() == email
    assert messages == [SEND_MESSAGE]


def test_an_email_of_a_kind_that_no_app_has_registered_is_refused(messages: list[Message]) -> None:
    """The caller hears it, not the operator an hour later."""
    with pytest.raises(kinds.UnknownKind, match=r"order\.lost"), transaction.atomic():
        outbox.add("order.lost", "17")
    assert not Email.objects.exists()
    assert messages == []


def test_while_an_older_email_is_due_no_further_message_is_sent(messages: list[Message]) -> None:
    """Whoever takes the older one goes on to the others: many orders at once cost one message."""
    for _ in range(5):
        ship()
    assert messages == [SEND_MESSAGE]
    Email.objects.update(state=State.FAILED, last_reply="no")
    ship()
    assert messages == [SEND_MESSAGE, SEND_MESSAGE]


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
        Email.objects.filter(pk=email.pk).update(**changes)
