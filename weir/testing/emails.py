"""sent_emails: the e-mails that a mailer would send after a commit go into Django's `mail.outbox`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.core import mail
from django.core.mail import EmailMessage

from weir.testing import messages
from weir.testing.servers import without_servers
from weir.workers.mail.message import Message
from weir.workers.mail.sending.sender import Sender
from weir.workers.mail.sending.source import ClaimAllowance, Source
from weir.workers.mail.transports.base import Accepted
from weir.workers.mail.transports.relays import Relay


@contextmanager
def sent_emails() -> Iterator[list[EmailMessage]]:
    """Send e-mails that are due into `django.core.mail.outbox` when a transaction commits; yields that list.

    The e-mails are claimed, rendered and recorded as a mailer would do it, whatever relay the settings name, but in
    this thread and on its connection. So their rows are `sent` immediately, even in a TestCase, in which
    `captureOnCommitCallbacks(execute=True)` takes the place of a commit. E-mails that are suppressed, paused or not due
    are not sent. Implies `without_servers`.
    """
    if not hasattr(mail, "outbox"):  # Django's test runner creates the outbox
        mail.outbox = []
    with without_servers(), messages.emails_delivered_by(_deliver_all):
        yield mail.outbox


class _Outbox:
    """A transport that puts e-mails into `mail.outbox`."""

    key_lifetime: timedelta | None = None
    is_connected = True

    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        written = message.as_django()
        begin()
        mail.outbox.append(written)
        return Accepted("put into mail.outbox")


_RELAY = Relay(name="mail.outbox", key_lifetime=None, place="", is_smtp=False, _make=_Outbox)


def _deliver_all() -> None:
    """Deliver all e-mails that are due, in the order in which a mailer would deliver them."""
    source, sender = Source(ClaimAllowance(None), lambda _email: 0.0), Sender([_RELAY])
    while held := source.next():
        sender.deliver(held)
