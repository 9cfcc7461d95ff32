"""`manage.py send_emails`: what it sends and says, how it refuses, and how it stops."""

import signal
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Eventually, StartPython
from weir.workers.mail import resolving, suppression
from weir.workers.mail.maintenance import operators
from weir.workers.mail.management.commands import send_emails
from weir.workers.mail.models import Act, Email, Rendering
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("messages")]


@pytest.fixture(autouse=True)
def _smtp(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send by SMTP to a port where nothing listens; this process has not tried it before."""
    settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    monkeypatch.setattr("weir.workers.mail.sending.routes._breakers", {})


@pytest.fixture
def server(settings: Settings, tmp_path: Path) -> Iterator[MailServer]:
    """Run the demo's mail server, and send there."""
    with mail_server.running(tmp_path) as running:
        settings.EMAIL_PORT = running.port
        yield running


def ship(*addresses: str) -> list[Email]:
    """Ship an order to each of the addresses; returns their e-mails."""
    orders = [Order.objects.create(number=f"A-{place}", customer_email=to) for place, to in enumerate(addresses, 1)]
    for order in orders:
        shipping.ship(order.pk)
    return list(Email.objects.order_by("pk"))


def send_emails_lines(*arguments: str) -> list[str]:
    """Return the lines that the command prints."""
    output = StringIO()
    call_command("send_emails", *arguments, stdout=output)
    return output.getvalue().splitlines()


def states() -> list[str]:
    return list(Email.objects.order_by("pk").values_list("state", flat=True))


def test_everything_that_is_due_is_sent_and_said(server: MailServer) -> None:
    """More than a batch: afterwards the mail server has each once, and nothing is due."""
    emails = ship(*(f"customer.{number}@example.com" for number in range(120)))
    assert send_emails_lines() == ["120 e-mails were sent."]
    assert server.received() == {email.message_id: 1 for email in emails}
    assert send_emails_lines() == ["No e-mail is due."]


def test_each_way_in_which_an_e_mail_can_end_is_said_in_a_sentence(server: MailServer) -> None:
    """Sent, refused for now, failed and unknown, each with its number, and where to read more."""
    ship(
        "customer@example.com",
        "greylist-9.1@example.com",
        "greylist-9.2@example.com",
        "refuse.1@example.com",
        "not an address",
        "cut-accepted.1@example.com",
    )
    assert send_emails_lines() == [
        "1 e-mail was sent.",
        "2 were refused for now, and are tried again later.",
        "2 failed: `manage.py emails list --state failed` says why.",
        "1 may have arrived, or not: `manage.py emails` shows what is known.",
    ]
    assert states() == ["sent", "pending", "pending", "failed", "failed", "unknown"]
    assert len(server.received()) == 2


def test_a_mail_server_that_cannot_be_reached_is_an_error_that_says_what_to_do() -> None:
    """Nothing is lost: all e-mails wait as before, and the sentence says how many, why, and where to look."""
    ship("a@example.com", "b@example.com")
    output = StringIO()
    with pytest.raises(CommandError) as stop:
        call_command("send_emails", stdout=output)
    happened, _, to_do = str(stop.value).partition("): ")
    assert happened.startswith("The mail server 127.0.0.1:1 cannot be reached (ConnectionRefusedError: ")
    assert to_do == "check the EMAIL_* settings and WEIR_MAIL_RELAYS. 2 e-mails wait."
    assert output.getvalue() == "2 were taken and not tried: they wait as before.\n"
    assert states() == ["pending", "pending"]
    assert set(Email.objects.values_list("attempts", flat=True)) == {0}


def test_a_rate_that_is_used_up_is_said_too(settings: Settings, server: MailServer) -> None:
    """What was sent before is said; the error names the setting that holds up the rest."""
    settings.WEIR_MAIL_RATE = "1/h"
    ship("a@example.com", "b@example.com")
    output = StringIO()
    with pytest.raises(CommandError, match=r"WEIR_MAIL_RATE, or its site is paused: .* 1 e-mail waits\."):
        call_command("send_emails", stdout=output)
    assert output.getvalue().startswith("1 e-mail was sent.\n")
    assert states() == ["sent", "pending"]
    assert len(server.received()) == 1


SEND = """
from django.conf import settings
from django.core.management import call_command
settings.EMAIL_PORT = int(sys.argv[1])
print("ready", flush=True)
call_command("send_emails")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_e_mail_that_is_in_flight(
    number: signal.Signals, server: MailServer, start_python: StartPython, eventually: Eventually
) -> None:
    """The command waits for its reply, so that nothing becomes unknown; the rest waits, and the exit status says so."""
    ship("late-2000.1@example.com", "late-2000.2@example.com")
    process = start_python(SEND, server.port, environment={"EMAIL_HOST": "127.0.0.1"})
    eventually(server.received, "the first e-mail to be with the mail server")
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert printed.splitlines() == ["ready"]
    assert process.returncode == 128 + number
    assert states() == ["sent", "pending"]


def test_signals_are_taken_as_before_when_it_is_over(server: MailServer) -> None:
    """The command leaves no handler behind."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    ship("a@example.com")
    send_emails_lines()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert len(server.received()) == 1


# --- --dry-run ----------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_sent_and_what_cannot_be(server: MailServer) -> None:
    """Each e-mail that is due has a line; the database stays as it is, and the mail server hears nothing."""
    good, broken, later = ship("a@example.com", "no address\x1b[31m", "c@example.com")
    Email.objects.filter(pk=later.pk).update(next_attempt_at="2999-01-01T00:00Z")
    before = list(Email.objects.order_by("pk").values())
    shown = "no address\N{REPLACEMENT CHARACTER}[31m"
    reason = r"There is a line break or a control character in the address: 'no address\x1b[31m'."
    assert send_emails_lines("--dry-run") == [
        f"would be sent: {good.pk}: order.shipped {good.key} to a@example.com",
        f"cannot be written: {broken.pk}: order.shipped {broken.key} to {shown}: {reason}",
        "1 e-mail would be sent, 1 cannot be written.",
    ]
    assert list(Email.objects.order_by("pk").values()) == before
    assert server.events() == []


def test_a_dry_run_needs_no_mail_server_and_says_the_same_again() -> None:
    """Nothing listens at the port of this test; and what is due still is."""
    assert send_emails_lines("--dry-run") == ["0 e-mails would be sent, 0 cannot be written."]
    [email] = ship("a@example.com")
    for _ in range(2):
        assert (
            send_emails_lines("--dry-run")[0]
            == f"would be sent: {email.pk}: order.shipped {email.key} to a@example.com"
        )
    assert states() == [EmailState.PENDING]


def test_a_dry_run_knows_what_is_not_sent_although_it_is_due(server: MailServer) -> None:
    """An e-mail of a paused kind has no line; one to an address of the suppression list has one, with the reason."""
    listed, _ = ship("a@example.com", "b@example.com")
    suppression.suppress("a@example.com", "She asked for it.")
    not_sent = f"would not be sent: {listed.pk}: order.shipped {listed.key} to a@example.com"
    assert send_emails_lines("--dry-run")[0] == (
        f"{not_sent}: The recipient is on the suppression list: She asked for it."
    )
    assert send_emails_lines("--dry-run")[-1] == "1 e-mail would be sent, 0 cannot be written, 1 is suppressed."
    operators.pause("order.shipped", "Ada", "The text is wrong.")
    assert send_emails_lines("--dry-run") == ["0 e-mails would be sent, 0 cannot be written, 2 wait: paused."]
    assert send_emails_lines() == ["No e-mail is due."]
    operators.resume("order.shipped", "Ada", "The text is right.")
    assert send_emails_lines() == [
        "1 e-mail was sent.",
        "1 not sent: the recipient is on the suppression list.",
    ]
    assert len(server.events()) > 0


def test_a_dry_run_renders_what_is_to_be_rendered_anew() -> None:
    """A corrected e-mail is to be rendered again; what a mailer would find wrong is said now."""
    [email] = ship("a@example.com")
    resolving.resolve(email.pk, Act.CORRECT, "Ada", "The text was wrong.")
    Order.objects.all()._raw_delete("default")  # as by SQL: nothing protects it
    assert send_emails_lines("--dry-run")[-1] == "0 e-mails would be sent, 1 cannot be written."


def test_a_dry_run_reads_rows_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of rows stay in the database: a cursor is open there while the command writes each part of them."""
    ship("a@example.com", "b@example.com")
    monkeypatch.setattr(send_emails, "AT_ONCE", 1)
    open_cursors: list[int] = []
    Rendering.objects.all().delete()
    monkeypatch.setattr(send_emails, "render", lambda _email: open_cursors.append(cursors()))
    assert send_emails_lines("--dry-run")[-1] == "2 e-mails would be sent, 0 cannot be written."
    assert open_cursors == [1, 1]


def cursors() -> int:
    """Return how many cursors this connection has open."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_cursors WHERE is_holdable")
        count: int = cursor.fetchone()[0]
        return count
