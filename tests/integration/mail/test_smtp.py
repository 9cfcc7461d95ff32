"""The mail backend, on real connections: what it reports about an attempt is what the server did."""

import re
import smtplib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

import pytest
from django.core import mail as django_mail
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import MARKS, accepted, message, scripted_server, ship
from weir.workers.mail.models import Email
from weir.workers.mail.phases import Phase
from weir.workers.mail.smtp import EmailBackend
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import BrokenOff, OutcomeUnknown, Refused, RelayRefuses, Unreachable
from weir.workers.orders.models import Order

pytestmark = MARKS

HELLO = [b"220 mail.example\r\n", b"250 mail.example\r\n"]
PIPELINE = [b"220 mail.example\r\n", b"250-mail.example\r\n250 PIPELINING\r\n"]
GO_AHEAD = [b"250 OK\r\n", b"250 OK\r\n", b"354 Go ahead\r\n"]


def submit(email: Email, begin: Callable[[], None] = lambda: None) -> str:
    """Submit the e-mail over a connection of its own."""
    mailer = relays.relays()[0].new()
    mailer.connect()
    try:
        return mailer.submit(message(email), begin).reply
    finally:
        mailer.close()


@pytest.mark.parametrize(
    ("word", "error", "phase", "comes"),
    [
        ("refuse", Refused, Phase.NOT_BEGUN, 0),
        ("greylist-1", Refused, Phase.NOT_BEGUN, 0),
        ("closing", Refused, Phase.NOT_BEGUN, 0),
        ("refuse-content", Refused, Phase.AFTER_DOT, 0),
        ("cut-unaccepted", OutcomeUnknown, Phase.AFTER_DOT, 0),
        ("cut-accepted", OutcomeUnknown, Phase.AFTER_DOT, 1),
    ],
)
def test_a_failure_tells_how_far_the_attempt_came(
    mail: MailServer, word: str, error: type[Exception], phase: Phase, comes: int
) -> None:
    """A refusal is certain at any time; after the dot nothing else is."""
    email = ship(word)
    with pytest.raises(error) as raised:
        submit(email)
    assert raised.value.phase == phase  # type: ignore[attr-defined]
    assert accepted(mail, email) == comes


def test_the_reply_to_an_accepted_email_is_returned(mail: MailServer) -> None:
    """Even if the server ends the connection right after it."""
    email = ship("cut-after-reply")
    assert submit(email) == "250 OK, and farewell"
    assert accepted(mail, email) == 1


@pytest.mark.parametrize(("status", "slows"), [("4.7.28", True), ("4.2.1", False)])
def test_a_refusal_tells_whether_it_is_the_recipients_domain_that_takes_no_more(
    settings: Settings, status: str, *, slows: bool
) -> None:
    """If so, other e-mails to that domain need not be tried."""
    email = ship()
    talk = [*HELLO, b"250 OK\r\n", f"450 {status} Later\r\n".encode(), b"250 OK\r\n", b"221 Bye\r\n"]
    with scripted_server(settings, talk), pytest.raises(Refused) as raised:
        submit(email)
    assert (raised.value.is_permanent, raised.value.slows_domain) == (False, slows)


def test_begin_is_called_once_and_right_before_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the server's go-ahead; the content follows, with the dot."""
    steps: list[bytes] = []
    send = smtplib.SMTP.send

    def note_and_send(server: smtplib.SMTP, data: bytes | str) -> None:
        steps.append(data if isinstance(data, bytes) else data.encode())
        send(server, data)

    monkeypatch.setattr(smtplib.SMTP, "send", note_and_send)
    submit(ship(), lambda: steps.append(b"begin"))
    words = [step.split()[0].lower() for step in steps]
    assert words == [b"ehlo", b"mail", b"rcpt", b"data", b"begin", b"from:", b"quit"]
    assert steps[-2].endswith(b"\r\n.\r\n")


def test_an_email_whose_begin_fails_is_not_accepted(mail: MailServer) -> None:
    """The connection is cut without the dot, the error is raised unchanged, and the next e-mail is not its content."""
    emails = [ship(), ship()]

    def fail() -> NoReturn:
        raise LookupError("somebody else has it")

    mailer = EmailBackend()
    mailer.connect()
    with pytest.raises(LookupError, match="somebody else"):
        mailer.submit(message(emails[0]), fail)
    assert not mailer.is_connected
    mailer.connect()
    mailer.submit(message(emails[1]), lambda: None)
    mailer.close()
    assert [accepted(mail, email) for email in emails] == [0, 1]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"what?\r\n", OutcomeUnknown),
        (b"354 Go on\r\n", OutcomeUnknown),
        (b"x" * 9_000 + b"\r\n", OutcomeUnknown),
        (b"", OutcomeUnknown),
        (b"250-Some", OutcomeUnknown),
        (b"451 Later\r\n", Refused),
        (b"552 Too big\r\n", Refused),
        (b"503 What dot?\r\n", RelayRefuses),
        (b"550-5.1.1 No\r\n554 5.1.1 No\r\n", Refused),  # both say that it is not accepted
        (b"250-OK\r\n550 5.1.1 No\r\n", OutcomeUnknown),  # RFC 5321, 4.2.1: the same code in each line
        (b"550-5.1.1 No\r\n250 OK\r\n", OutcomeUnknown),
        (b"250-OK\r\n450-4.1.1 No\r\n250 OK\r\n", OutcomeUnknown),
        (b"Hm\r\n250 OK\r\n", OutcomeUnknown),
    ],
)
def test_only_a_clear_reply_to_the_dot_says_what_became_of_it(
    settings: Settings, reply: bytes, error: type[Exception]
) -> None:
    """After any other reply, or none, the outcome is unknown."""
    farewells = [b"250 OK\r\n"] if error in {Refused, RelayRefuses} else []
    email = ship()
    with scripted_server(settings, [*HELLO, *GO_AHEAD, reply, *farewells]), pytest.raises(error):
        submit(email)


def test_no_reply_in_time_is_unknown(settings: Settings) -> None:
    """The reply to the dot has a time-out of its own, and the steps before it theirs."""
    settings.WEIR_MAIL_REPLY_TIMEOUT = 0.2
    with pytest.raises(OutcomeUnknown, match="timed out") as raised:
        submit(ship("late-2000"))
    assert raised.value.phase == Phase.AFTER_DOT
    settings.WEIR_MAIL_REPLY_TIMEOUT = 30.0
    settings.WEIR_MAIL_COMMAND_TIMEOUT = 0.2
    with pytest.raises(BrokenOff, match="timed out") as broken:
        submit(ship("stall-2000"))
    assert broken.value.phase == Phase.NOT_BEGUN
    mailer = EmailBackend()
    mailer.connect()
    assert mailer.submit(message(ship("late-500")), lambda: None).reply == "250 OK"
    with pytest.raises(BrokenOff, match="timed out"):  # also after that reply
        mailer.submit(message(ship("stall-2000")), lambda: None)


@pytest.mark.parametrize(
    "connection",
    [
        [b"421 Too busy\r\n"],
        [b"554 Not you\r\n"],
        [b"220 mail.example\r\n", b"550 5.1.1 Who?\r\n", b"550 5.1.1 Who?\r\n"],
        [*HELLO, b"530 5.7.0 Authentication required\r\n"],
        [b""],
    ],
)
def test_a_server_that_does_not_let_us_in_is_unreachable(settings: Settings, connection: list[bytes]) -> None:
    """No e-mail is to blame."""
    email = ship()
    with scripted_server(settings, connection), pytest.raises(Unreachable):
        submit(email)


def test_a_login_that_fails_is_unreachable(settings: Settings) -> None:
    """A wrong password, or a server that has no login to offer."""
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "shop", "secret"
    email = ship()
    wrong = [
        b"220 mail.example\r\n",
        b"250-mail.example\r\n250 AUTH PLAIN\r\n",
        b"535 5.7.8 Wrong\r\n",
        b"535 Wrong\r\n",
    ]
    with scripted_server(settings, wrong), pytest.raises(Unreachable, match="535"):
        submit(email)
    with scripted_server(settings, HELLO), pytest.raises(Unreachable, match="not supported"):
        submit(email)


def test_tls_that_fails_is_unreachable(settings: Settings) -> None:
    """A server without TLS, and one that offers it but does not have it."""
    settings.EMAIL_USE_TLS = True
    email = ship()
    with scripted_server(settings, HELLO), pytest.raises(Unreachable, match="STARTTLS"):
        submit(email)
    lying = [b"220 mail.example\r\n", b"250-mail.example\r\n250 STARTTLS\r\n", b"220 Go ahead\r\n", b"no TLS"]
    with scripted_server(settings, lying), pytest.raises(Unreachable, match="SSL"):
        submit(email)


def test_nobody_listens_is_unreachable(settings: Settings) -> None:
    """Nor is there a host of that name."""
    email = ship()
    settings.EMAIL_PORT = 1
    with pytest.raises(Unreachable, match="refused"):
        submit(email)


def test_a_line_that_begins_with_a_dot_arrives_as_it_was_written(settings: Settings) -> None:
    """And none of them ends the e-mail."""
    written = replace(message(ship()), content=b"Subject: x\r\n\r\n.\r\n..\r\n.end")
    with scripted_server(settings, [*HELLO, *GO_AHEAD, b"250 OK\r\n", b"221 Bye\r\n"]) as heard:
        mailer = relays.relays()[0].new()
        mailer.connect()
        mailer.submit(written, lambda: None)
        mailer.close()
    assert heard[4] == b"Subject: x\r\n\r\n..\r\n...\r\n..end\r\n.\r\n"


def test_a_server_that_takes_commands_in_a_row_gets_them_at_once(settings: Settings) -> None:
    """MAIL, RCPT and DATA cost one round trip then (RFC 2920); the content waits for the go-ahead."""
    with scripted_server(settings, [*PIPELINE, b"", b"", b"".join(GO_AHEAD), b"250 OK\r\n", b"221 Bye\r\n"]) as heard:
        assert submit(ship()) == "250 OK"
    words = [line.split()[0].lower() for line in heard]
    assert words == [b"ehlo", b"mail", b"rcpt", b"data", b"from:", b"quit"]


@pytest.mark.parametrize(
    ("replies", "error", "words"),
    [
        ([b"451 Later\r\n", b"503 What?\r\n", b"503 What?\r\n", b"221 Bye\r\n"], RelayRefuses, "451 Later"),
        ([b"250 OK\r\n", b"550 5.1.1 Who?\r\n", b"554 Nobody\r\n", b"250 OK\r\n"], Refused, "550 5.1.1 Who?"),
        ([b"250 OK\r\n", b"550 5.1.1 Who?\r\n", b"354 Go ahead\r\n"], Refused, "550 5.1.1 Who?"),
        ([b"250 OK\r\n", b"250 OK\r\n", b"451 Later\r\n", b"250 OK\r\n"], Refused, "451 Later"),
        ([b"250 OK\r\n", b"421 Bye\r\n"], Refused, "421 Bye"),
        ([b"250 OK\r\n", b"250 OK\r\n", b""], BrokenOff, "closed"),
        ([b"530 Who are you?\r\n", b"530\r\n", b"530\r\n", b"221 Bye\r\n"], RelayRefuses, "530 Who are you?"),
        # The server closes the connection after its reply: the reply counts.
        ([b"250 OK\r\n", b"550 5.1.1 Who?\r\n"], Refused, "550 5.1.1 Who?"),
        ([b"250 OK\r\n", b"450 Later\r\n"], Refused, "450 Later"),
        ([b"550 5.7.1 Client host rejected\r\n"], RelayRefuses, "550 5.7.1 Client host rejected"),
        ([b"250 OK\r\n"], BrokenOff, "closed"),
    ],
)
def test_what_is_refused_at_once_is_refused_as_if_one_by_one(
    settings: Settings, replies: list[bytes], error: type[Exception], words: str
) -> None:
    """The first refusal counts, and nothing is begun."""
    begun: list[bool] = []
    email = ship()
    with scripted_server(settings, [*PIPELINE, *replies]), pytest.raises(error, match=re.escape(words)):
        submit(email, lambda: begun.append(True))
    assert begun == []


def test_a_server_that_waits_for_the_content_of_a_refused_email_is_left(settings: Settings) -> None:
    """Whatever we sent next would be that content."""
    email = ship()
    settings.EMAIL_TIMEOUT = 2.0
    with scripted_server(
        settings, [*PIPELINE, b"250 OK\r\n", b"550 5.1.1 Who?\r\n", b"354 Go ahead\r\n", b""]
    ) as heard:
        mailer = EmailBackend()
        mailer.connect()
        with pytest.raises(Refused):
            mailer.submit(message(email), lambda: None)
        assert not mailer.is_connected
    assert not [line for line in heard if line.startswith(b"rset")]


def test_one_connection_serves_many_also_after_a_refusal(mail: MailServer) -> None:
    """A refused e-mail leaves the conversation in step."""
    emails = [ship(), ship("refuse"), ship(), ship("refuse-content"), ship()]
    mailer = EmailBackend()
    mailer.connect()
    connection = mailer.connection
    for email in emails:
        with suppress(Refused):
            mailer.submit(message(email), lambda: None)
        assert mailer.connection is connection
    mailer.close()
    assert [accepted(mail, email) for email in emails] == [1, 0, 1, 0, 1]


def test_it_is_djangos_backend_for_all_other_emails() -> None:
    """Its errors, too, are smtplib's."""
    assert django_mail.send_mail("Hello", "there", None, ["plain.other@customers.example"]) == 1
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        django_mail.send_mail("Hello", "there", None, ["refuse.other@customers.example"])


def test_another_backend_is_asked_to_send_and_its_refusal_is_certain(settings: Settings) -> None:
    """What its errors say is in test_any_backend.py."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    begun: list[bool] = []
    email = ship()
    assert submit(email, lambda: begun.append(True)) == "accepted by the mail backend"
    (sent,) = django_mail.outbox
    assert sent.to == [Order.objects.get(pk=email.key).customer_email]
    assert sent.extra_headers["Message-ID"] == email.message_id
    assert begun == [True]
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with pytest.raises(Refused, match="550"):
        submit(ship("refuse"))
    settings.EMAIL_PORT = 1
    with pytest.raises(Unreachable):
        submit(email)
