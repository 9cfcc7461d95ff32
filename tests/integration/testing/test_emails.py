"""E-mails in `mail.outbox`: those that a mailer would send."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.utils import timezone

from weir.testing import captured_fetches, sent_emails
from weir.workers.audit.acting import of_shell
from weir.workers.mail import outbox
from weir.workers.mail.actions import kinds as actions
from weir.workers.mail.models import Email
from weir.workers.orders.models import Order

KIND = "order.shipped"


@pytest.fixture
def emails(transactional_db: None) -> Iterator[list[EmailMessage]]:  # noqa: ARG001  asked for its effect
    """Return what is sent."""
    with sent_emails() as sent:
        yield sent


def queue(number: str, not_before: datetime | None = None) -> Email:
    order = Order.objects.create(number=number, customer_email="kim@example.com")
    context = {"order_id": order.pk}
    return outbox.send_once(KIND, number, to="Kim <kim@example.com>", context=context, not_before=not_before)


def test_an_email_is_sent_once(emails: list[EmailMessage]) -> None:
    queue("1")
    outbox.send_once(KIND, "1", to="kim@example.com", context={})
    assert [email.to for email in emails] == [["kim@example.com"]]
    assert emails is mail.outbox
    assert Email.objects.get().state == "sent"
    assert Email.objects.get().relay == "mail.outbox"


def test_what_is_not_due_is_not_sent(emails: list[EmailMessage]) -> None:
    queue("1", not_before=timezone.now() + timedelta(hours=1))
    actions.pause(of_shell(), KIND, why="a test")
    queue("2")
    assert emails == []
    assert set(Email.objects.values_list("state", flat=True)) == {"pending"}


def test_what_waited_is_sent_as_well(transactional_db: None) -> None:  # noqa: ARG001  as above
    """Of the same kind, and older: no mailer is woken for the second one, as it would take the first."""
    with captured_fetches():
        queue("1")
    with sent_emails() as emails, captured_fetches():
        queue("2")
        assert len(emails) == 2
