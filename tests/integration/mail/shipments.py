"""What tests of e-mails share: shipping to an address, and asking the mail server what came."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count, pairwise

import pytest
from django.db import connection
from pytest_django import Settings

from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from weir.workers.mail import renderings
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.sending import runner
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import Transport
from weir.workers.mail.transports.relays import Relay
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

# Only these tables are emptied between tests, which takes a tenth of the time.
DATABASE = pytest.mark.django_db(
    transaction=True, available_apps=["weir.ratelimit", "weir.workers.mail", "weir.workers.orders"]
)
MARKS = [DATABASE, pytest.mark.usefixtures("mail", "messages")]

_numbers = count(1)


def place(word: str = "plain") -> Order:
    """Place an order of a new customer; the word in the address says how the mail server behaves."""
    number = next(_numbers)
    return Order.objects.create(number=f"T-{number}", customer_email=f"{word}.{number}@customers.example")


def ship(word: str = "plain") -> Email:
    """Place an order and ship it."""
    order = place(word)
    assert shipping.ship(order.pk)
    return order.shipped_email


def unrendered(email: Email) -> Email:
    """Delete its rendering: a mailer renders it, like one of an earlier release, or one that is rendered again."""
    Rendering.objects.filter(pk=email.pk).delete()
    return email


def message(email: Email) -> Message:
    """Return what is transmitted of the e-mail."""
    return renderings.message(email, email.rendering)


def redirect(email: Email, word: str) -> None:
    """Change the e-mail's address, so that the mail server behaves as this word says."""
    Email.objects.filter(pk=email.pk).update(recipient=f"{word}.{email.pk}@customers.example")


def accepted(server: MailServer, email: Email) -> int:
    """Return how often the mail server accepted the e-mail."""
    return server.received()[email.message_id]


def state(email: Email) -> tuple[str, int]:
    """Return the state that it has now, and how many attempts there were."""
    email.refresh_from_db()
    return email.state, email.attempts


@contextmanager
def sending_meanwhile(at_most_s: float | None = None) -> Iterator[None]:
    """Send what is due, in a thread, during the block; then wait for the thread's end."""

    def send() -> None:
        try:
            runner.send_due(at_most_s=at_most_s)
        finally:
            connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:  # or it would send what the next test ships
        thread.join(30)
    assert not thread.is_alive()


def use(monkeypatch: pytest.MonkeyPatch, transport: Callable[[], Transport], place: str = "") -> None:
    """Make the settings name one relay, with transports of the test's own; one with a place has a rate."""
    relay = Relay(name="the test's", key_lifetime=None, place=place, is_smtp=True, _make=transport)
    monkeypatch.setattr(relays, "relays", lambda: (relay,))


class ConnectedTransport:
    """A transport that needs no mail server: subclasses say what becomes of an e-mail."""

    is_connected = True
    key_lifetime: timedelta | None = None

    def connect(self) -> None:
        """Nothing to connect to."""

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def scripted_server(settings: Settings, *connections: list[bytes]) -> Iterator[list[bytes]]:
    """Run a mail server that says these lines to each connection in turn; then it ends the connection.

    The first line is the greeting, each further one answers a command; the content counts as one, with its dot. Yields
    what it heard. The settings name it.
    """
    heard: list[bytes] = []

    def serve() -> None:
        for lines in connections:
            peer, _ = listener.accept()
            with peer, peer.makefile("rb") as commands:
                peer.sendall(lines[0])
                for before, line in pairwise(lines):
                    heard.append(_content(commands) if b"354" in before else next(commands, b""))
                    if not heard[-1]:
                        break
                    peer.sendall(line)

    with socket.create_server((mail_server.HOST, 0)) as listener:
        settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield heard
        thread.join(10)
        assert not thread.is_alive()


def _content(lines: Iterator[bytes]) -> bytes:
    """Return everything up to the dot."""
    content: list[bytes] = []
    while not content or content[-1] != b".\r\n":
        content.append(next(lines, b".\r\n"))
    return b"".join(content)
