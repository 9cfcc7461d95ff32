"""The demo's shipments: each order is shipped once; e-mails that are received twice, or never, are found."""

import os
import smtplib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from demo import programs, warehouse
from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer, behaviour
from demo.figures import Emails
from demo.killer import Killer
from demo.shipments import Shipments
from project.processes.procfile import Processes
from tests.integration.conftest import Eventually, InThreads, Message
from weir.workers import task_names
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner
from weir.workers.orders.models import Order

pytestmark = pytest.mark.django_db(transaction=True)
HOSTILE = {
    *("late", "stall", "greylist", "refuse", "refuse-content", "closing"),
    *("cut-before-dot", "cut-unaccepted", "cut-accepted", "cut-after-reply"),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MailServer]:
    """A mail server that is running."""
    with mail_server.running(tmp_path) as running:
        yield running


@pytest.fixture
def shipments(server: MailServer, tmp_path: Path) -> Iterator[Shipments]:
    """The shipments of a warehouse that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        yield Shipments(
            program=programs.Program(name="warehouse", _process=idle, _log=tmp_path / "log"),
            killer=Killer(Processes(names=(), _supervisor=idle)),
            _server=server,
        )


def deliver(server: MailServer, *emails: Email) -> None:
    """Submit e-mails, whatever their state is."""
    with smtplib.SMTP("127.0.0.1", server.port) as client:
        for email in emails:
            client.sendmail("orders@shop.example", "customer@customers.example", f"Message-ID: {email.message_id}\n\n.")


def shipped(number: int) -> Email:
    """Place an order, ship it, and return its e-mail."""
    warehouse.place_order(number)
    warehouse.ship_all()
    return Order.objects.get(number=f"{number:06}").shipped_email


def test_two_clerks_at_once_ship_each_order_once(messages: list[Message], in_threads: InThreads) -> None:
    """Both find the same orders; each order has one e-mail at the end, and one clerk has counted it."""
    for number in range(40):
        warehouse.place_order(number)
    counts = in_threads(2, lambda _: warehouse.ship_all())
    assert sum(counts) == 40
    assert not Order.objects.unshipped().exists()
    assert Email.objects.count() == 40
    assert {task for task, _ in messages} == {task_names.SEND_EMAILS}


def test_customers_have_every_kind_of_mail_server() -> None:
    """Eight of ten are plain; the others misbehave in all the ways that the demo's mail server knows."""
    words = Counter(behaviour(warehouse.customer(number))[0] for number in range(900))
    assert words["customer"] == 720
    assert set(words) == {"customer"} | HOSTILE
    described = mail_server.__doc__ or ""
    assert all(f"| `{word}" in described for word in HOSTILE)


@pytest.mark.usefixtures("messages")
def test_every_state_is_counted(shipments: Shipments) -> None:
    """What is neither sent nor failed nor unknown is pending."""
    for number, state in enumerate([EmailState.SENT, EmailState.FAILED, EmailState.PENDING, EmailState.PENDING]):
        email = shipped(number)
        email.state, email.last_reply = state, "said"
        email.sent_at = Now() if state == EmailState.SENT else None
        email.save()
    assert shipments.look() == Emails(shipped=4, emails_sent=1, emails_failed=1)
    assert shipments.look().pending == 2


@pytest.mark.usefixtures("messages")
def test_an_email_that_comes_twice_is_found(shipments: Shipments, server: MailServer) -> None:
    """Also if the second comes after a look; the mail server's list decides, not the database."""
    twice, once = shipped(1), shipped(2)
    deliver(server, twice, once)
    assert shipments.look().emails_received_twice == 0
    deliver(server, twice)
    assert shipments.look().emails_received_twice == 1
    deliver(server, twice)
    assert shipments.received_twice() == 1


@pytest.mark.usefixtures("messages")
def test_an_email_that_is_sent_and_was_never_received_is_found_at_the_end(
    shipments: Shipments, server: MailServer
) -> None:
    """Of two e-mails that are `sent`, the mail server's list has one; compared when the warehouse has stopped."""
    deliver(server, shipped(1), shipped(3))
    shipped(2)
    Email.objects.exclude(key=str(Order.objects.get(number="000003").pk)).update(state=EmailState.SENT, sent_at=Now())
    assert shipments.look().emails_never_received == 0
    shipments.program.stop()
    assert shipments.look().emails_never_received == 1


@pytest.mark.usefixtures("messages")
def test_what_weir_sends_is_received_once(shipments: Shipments, server: MailServer, settings: Settings) -> None:
    """Weir's own mailer and the mail server's list agree."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    for number in (1, 2, 3):
        shipped(number)
    assert runner.send_due().sent == 3
    shipments.program.stop()
    assert shipments.look() == Emails(shipped=3, emails_sent=3)


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    """The offset stays before it, and the next call returns it whole."""
    record = tmp_path / "mail.jsonl"
    server = MailServer(port=0, pid=0, record=record)
    listed = mail_server.Record(record)
    listed.add("accepted", "a@customers.example", "<1>")
    whole = record.read_bytes()
    record.write_bytes(whole + whole[:20])
    first, offset = server.events_since(0)
    assert [event.message_id for event in first] == ["<1>"]
    assert server.events_since(offset) == ([], offset)
    record.write_bytes(whole * 2)
    assert [event.message_id for event in server.events_since(offset)[0]] == ["<1>"]
    assert len(server.events()) == 2


def test_a_warehouse_that_ends_by_itself_is_an_error(tmp_path: Path, eventually: Eventually) -> None:
    """Without a database it ends, and the sentence names the file with its last words."""
    log = tmp_path / "processes.log"
    env = {**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    told = rf"The demo's warehouse ended: the last words are in {log}\."
    with pytest.raises(RuntimeError, match=told), programs.running("warehouse", log=log, env=env) as program:
        eventually(lambda: program.has_stopped, "the end of the warehouse")
    assert "OperationalError" in log.read_text()
