"""Any mail backend for Django as a transport, on real connections: what its errors say for certain is used."""

import re
import smtplib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.core import mail as django_mail
from pytest_django import Settings

from demo.fakes import mail_provider, mail_server
from demo.fakes.mail_provider import MailProvider
from demo.fakes.mail_server import MailServer
from demo.fakes.provider_server import API_KEY, HOST
from tests.integration.mail.letters import letter
from tests.integration.mail.shipments import scripted_server
from tests.valkeys import free_port
from weir.workers.mail.message import Message
from weir.workers.mail.phases import Phase
from weir.workers.mail.transports.any_backend import AnyBackend
from weir.workers.mail.transports.base import Accepted, BrokenOff, OutcomeUnknown, Refused, RelayRefuses, Unreachable

SMTP = "django.core.mail.backends.smtp.EmailBackend"
ANYMAIL = "anymail.backends.resend.EmailBackend"
HELLO = [b"220 mail.example\r\n", b"250 mail.example\r\n", b"250 still here\r\n"]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailProvider]:
    """Return a provider for all tests: addresses are never the same."""
    with mail_provider.running(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
def anymail(provider: MailProvider, settings: Settings) -> Iterator[AnyBackend]:
    """Return django-anymail's backend for Resend, which asks the provider."""
    settings.ANYMAIL = {
        "RESEND_API_KEY": API_KEY,
        "RESEND_API_URL": f"http://{HOST}:{provider.port}/",
        "REQUESTS_TIMEOUT": 0.5,
    }
    made = AnyBackend(django_mail.get_connection(ANYMAIL))
    yield made
    made.close()


@pytest.fixture
def smtp(mail_server_of_all: MailServer, settings: Settings) -> Iterator[AnyBackend]:
    """Return Django's own backend for SMTP, which asks the mail server."""
    settings.EMAIL_HOST, settings.EMAIL_PORT = mail_server.HOST, mail_server_of_all.port
    made = AnyBackend(django_mail.get_connection(SMTP))
    yield made
    made.close()


def submit(transport: AnyBackend, message: Message) -> Accepted:
    """Submit the e-mail, over a new connection if there is none."""
    if not transport.is_connected:
        transport.connect()
    return transport.submit(message, lambda: None)


@pytest.mark.parametrize(
    ("word", "error", "phase", "is_permanent"),
    [
        ("refuse", Refused, Phase.NOT_BEGUN, True),
        ("greylist-1", Refused, Phase.NOT_BEGUN, False),
        ("closing", Refused, Phase.NOT_BEGUN, False),
        ("refuse-content", Refused, Phase.AFTER_DOT, True),
        ("cut-before-dot", OutcomeUnknown, Phase.BEGUN, None),  # smtplib's error is the same as after the dot
        ("cut-unaccepted", OutcomeUnknown, Phase.BEGUN, None),
        ("cut-accepted", OutcomeUnknown, Phase.BEGUN, None),
    ],
)
def test_a_refusal_by_smtp_is_certain(
    smtp: AnyBackend, word: str, error: type[Exception], phase: Phase, *, is_permanent: bool | None
) -> None:
    """550 and 451 are not unknown outcomes; a connection that is cut is one."""
    with pytest.raises(error) as raised:
        submit(smtp, letter(word))
    found: Any = raised.value
    assert (found.phase, getattr(found, "is_permanent", None)) == (phase, is_permanent)
    assert not smtp.is_connected


@pytest.mark.parametrize(
    ("replies", "error", "words"),
    [
        ([*HELLO, b"550 5.4.5 Daily limit\r\n"], RelayRefuses, "Daily limit"),
        ([*HELLO, b"530 5.7.0 Log in\r\n"], RelayRefuses, "Log in"),
        ([*HELLO, b"452 4.3.1 Full\r\n"], RelayRefuses, "Full"),
        ([*HELLO, b"503 5.5.1 Not now\r\n"], RelayRefuses, "Not now"),
        ([*HELLO, b"552 5.3.4 Too large\r\n"], Refused, "Too large"),
        ([*HELLO, b"250 OK\r\n", b"550 Sender verify failed\r\n"], RelayRefuses, "verify"),
        ([*HELLO, b"250 OK\r\n", b"550 No such user\r\n"], Refused, "user"),
        ([*HELLO, b"250 OK\r\n", b"250 OK\r\n", b"354 Go\r\n", b"554 Sending paused\r\n"], RelayRefuses, "paused"),
        ([*HELLO, b"250 OK\r\n", b"250 OK\r\n", b"451 Not now\r\n"], Refused, "Not now"),
        ([*HELLO, b"250 OK\r\n", b"250 OK\r\n", b"354 Go\r\n", b"299 Odd\r\n"], OutcomeUnknown, "Odd"),
        ([*HELLO, b"250 OK\r\n", b"250 OK\r\n", b"354 Go\r\n", b"2" * 9000 + b"\r\n"], OutcomeUnknown, "too long"),
    ],
)
def test_each_reply_by_smtp_is_judged_by_what_it_is_about(
    settings: Settings, replies: list[bytes], error: type[Exception], words: str
) -> None:
    """A reply to MAIL is about us, not the e-mail, unless that is too large; so is a later reply that names us."""
    settings.EMAIL_TIMEOUT = 5.0
    with scripted_server(settings, [*replies, *[b"250 OK\r\n"] * 3]):
        transport = AnyBackend(django_mail.get_connection(SMTP))
        with pytest.raises(error, match=words) as raised:
            submit(transport, letter())
        assert type(raised.value) is error
        assert not transport.is_connected


def test_one_connection_that_is_cut_makes_no_other_email_unknown(
    smtp: AnyBackend, mail_server_of_all: MailServer
) -> None:
    """It is closed after every error: the next e-mail has a new one."""
    with pytest.raises(OutcomeUnknown):
        submit(smtp, letter("cut-accepted"))
    others = [letter() for _ in range(5)]
    for other in others:
        submit(smtp, other)
    accepted = [event.recipient for event in mail_server_of_all.events() if event.event == "accepted"]
    assert [accepted.count(other.recipient) for other in others] == [1] * 5


def test_a_connection_that_was_cut_meanwhile_breaks_off_before_anything_begins(
    smtp: AnyBackend, mail_server_of_all: MailServer
) -> None:
    """A mail server may close an idle one; smtplib would raise only when the phase cannot be known any more."""
    begun: list[bool] = []
    submit(smtp, letter("cut-after-reply"))
    sent = letter()
    with pytest.raises(BrokenOff) as raised:
        smtp.submit(sent, lambda: begun.append(True))
    assert (begun, raised.value.phase, smtp.is_connected) == ([], Phase.NOT_BEGUN, False)
    submit(smtp, sent)
    accepted = [event.recipient for event in mail_server_of_all.events() if event.event == "accepted"]
    assert accepted.count(sent.recipient) == 1


def test_who_cannot_be_reached_by_smtp_has_begun_nothing(settings: Settings) -> None:
    """No connection and no such host; a login that is refused concerns us."""
    settings.EMAIL_TIMEOUT = 5.0
    for host, port in ((HOST, free_port()), ("no-such-host.invalid", 25)):
        settings.EMAIL_HOST, settings.EMAIL_PORT = host, port
        with pytest.raises(Unreachable):
            submit(AnyBackend(django_mail.get_connection(SMTP)), letter())
    replies = [b"220 mail.example\r\n", b"250-mail.example\r\n250 AUTH PLAIN\r\n", *[b"535 5.7.8 No\r\n"] * 3]
    with scripted_server(settings, replies):
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = "weir"  # noqa: S105  a test's own
        with pytest.raises(RelayRefuses, match="535"):
            submit(AnyBackend(django_mail.get_connection(SMTP)), letter())


@pytest.mark.parametrize(
    ("word", "error", "words"),
    [
        ("status-401", RelayRefuses, "401"),
        ("status-403", RelayRefuses, "403"),
        ("limit-9", RelayRefuses, "429"),
        ("status-404", RelayRefuses, "404"),
        ("status-400", Refused, "400"),
        ("status-406", Refused, "406"),
        ("status-413", Refused, "413"),
        ("refuse", Refused, "422"),
        ("status-500", OutcomeUnknown, "500"),
        ("status-409", OutcomeUnknown, "409"),
        ("error-accepted", OutcomeUnknown, "500"),
        ("nonsense-accepted", OutcomeUnknown, "JSON"),
        ("hang-accepted", OutcomeUnknown, "timed out"),
        ("cut-accepted", OutcomeUnknown, "without response"),
    ],
)
def test_each_reply_to_anymail_is_told_for_what_it_is(
    anymail: AnyBackend, word: str, error: type[Exception], words: str
) -> None:
    """A status that means so is a refusal, of us or of the e-mail; everything else is unknown."""
    with pytest.raises(error, match=words) as raised:
        submit(anymail, letter(word))
    found: Any = raised.value
    assert type(found) is error
    assert getattr(found, "is_permanent", True)
    assert getattr(found, "retry_after_s", 0.0) == (2.0 if word == "limit-9" else 0.0)
    assert API_KEY not in str(found)
    assert not anymail.is_connected


def test_anymail_without_a_network_has_begun_nothing(anymail: AnyBackend) -> None:
    """Nothing listens, no such host, or no answer to the connection."""
    for url in (f"http://{HOST}:{free_port()}/", "http://no-such-host.invalid/"):
        anymail._backend.api_url = url  # type: ignore[attr-defined]
        with pytest.raises(Unreachable):
            submit(anymail, letter())
        assert not anymail.is_connected


def test_what_anymail_cannot_say_to_the_provider_is_refused(anymail: AnyBackend) -> None:
    """The backend raises before it asks the provider."""
    written = EmailMessage(policy=policy.SMTP)
    written["From"], written["To"], written["Subject"] = "a@shop.example", "kim@customers.example", "Hello"
    written.set_content("Hello\n")
    written.add_attachment(b"pdf", maintype="application", subtype="zip", filename="bill.pdf")
    with pytest.raises(Refused, match="AnymailUnsupportedFeature"):
        submit(anymail, replace(letter(), content=written.as_bytes()))


def test_the_providers_name_of_an_email_is_kept(anymail: AnyBackend, provider: MailProvider) -> None:
    """People can ask the provider about the e-mail by that name."""
    sent = letter()
    reply = submit(anymail, sent)
    [event] = [event for event in provider.events() if event.recipient == sent.recipient]
    assert (event.event, event.id) == ("accepted", reply.provider_id)


def test_anymail_gets_the_whole_email(anymail: AnyBackend, provider: MailProvider) -> None:
    """Texts, headers and files, including a picture that the HTML shows, and an attached e-mail."""
    plain = letter()
    parsed = message_from_bytes(plain.content, policy=policy.SMTP)
    assert isinstance(parsed, EmailMessage)
    parsed.get_payload()[1].add_related(b"png", "image", "png", cid="<logo>", filename="logo.png")  # type: ignore[index,union-attr]
    parsed.add_attachment(b"pdf", maintype="application", subtype="pdf", filename="bill.pdf")
    inner = EmailMessage(policy=policy.SMTP)
    inner["Subject"] = "Where is it?"
    inner.set_content("Where?\n")
    parsed.add_attachment(inner, filename="question.eml")
    submit(anymail, replace(plain, content=parsed.as_bytes()))
    [event] = [event for event in provider.events() if event.recipient == plain.recipient]
    files = {file["filename"]: file for file in event.request.pop("attachments")}
    assert {name: file["content_type"] for name, file in files.items()} == {
        "logo.png": "image/png",
        "bill.pdf": "application/pdf",
        "question.eml": "message/rfc822",
    }
    assert files["logo.png"]["content_id"] == "logo"
    assert event.request == {
        "from": "The Shop <orders@shop.example>",
        "to": [plain.recipient],
        "reply_to": ["help@shop.example"],
        "subject": "Hello, №1",
        "text": "Hello Kim\n",
        "html": "<p>Hello Kim</p>\n",
        "headers": {
            "Message-ID": parsed["Message-ID"],
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": "<https://shop.example/u/1>",
            "Date": "Mon, 23 Nov 2026 18:00:00 +0000",
        },
    }


def test_smtp_transmits_what_was_written(settings: Settings) -> None:
    """To the byte, by Django's own backend, too."""
    sent = letter()
    replies = [*HELLO, b"250 OK\r\n", b"250 OK\r\n", b"354 Go\r\n", b"250 OK\r\n", b"221 Bye\r\n"]
    settings.EMAIL_TIMEOUT = 5.0
    with scripted_server(settings, replies) as heard:
        transport = AnyBackend(django_mail.get_connection(SMTP))
        assert submit(transport, sent) == Accepted("accepted by the mail backend")
        transport.close()
    assert sent.content + b".\r\n" in heard


@pytest.mark.parametrize("name", ["console", "filebased", "locmem", "dummy"])
def test_djangos_other_backends_take_an_email(
    name: str, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that write the e-mail somewhere write it as it is."""
    settings.EMAIL_FILE_PATH = str(tmp_path / "mails")
    sent = letter()
    transport = AnyBackend(django_mail.get_connection(f"django.core.mail.backends.{name}.EmailBackend"))
    assert submit(transport, sent).reply == "accepted by the mail backend"
    transport.close()
    printed = capsys.readouterr().out.encode()
    written = {
        "console": lambda: printed,
        "filebased": lambda: next((tmp_path / "mails").iterdir()).read_bytes(),
        "locmem": lambda: django_mail.outbox[-1].message().as_bytes(),
        "dummy": lambda: sent.content,
    }
    assert sent.content in written[name]()


class Chained(Exception):
    """An error of a backend of the project's own."""


def chained(cause: Exception, *, explicitly: bool) -> Chained:
    """Return an error that was raised while the cause was handled, or because of it."""
    error = Chained()
    error.__cause__, error.__context__ = cause if explicitly else None, cause
    return error


@pytest.mark.parametrize(
    ("explicitly", "error"), [(True, Refused), (False, OutcomeUnknown)], ids=["because of it", "while it was handled"]
)
def test_the_cause_of_an_error_counts_and_what_was_handled_does_not(
    explicitly: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend may have tried once more after a refusal, and then the last error says nothing of the e-mail."""
    transport = AnyBackend(django_mail.get_connection("django.core.mail.backends.dummy.EmailBackend"))
    refusal = smtplib.SMTPDataError(554, b"5.6.0 no")

    def fail(_messages: object) -> int:
        raise chained(refusal, explicitly=explicitly)

    monkeypatch.setattr(transport._backend, "send_messages", fail)
    with pytest.raises(error):
        submit(transport, letter())


def test_nothing_is_handed_over_when_begin_raises(smtp: AnyBackend, mail_server_of_all: MailServer) -> None:
    """The claim is lost: another worker has the e-mail."""
    sent = letter()
    smtp.connect()

    def lost() -> None:
        raise LookupError

    with suppress(LookupError):
        smtp.submit(sent, lost)
    submit(smtp, letter())
    assert sent.recipient not in {event.recipient for event in mail_server_of_all.events()}


def test_a_backend_that_says_nothing_leaves_the_email_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a backend that was told to fail silently."""
    transport = AnyBackend(django_mail.get_connection("django.core.mail.backends.dummy.EmailBackend"))
    monkeypatch.setattr(transport._backend, "send_messages", lambda _: None)
    with pytest.raises(OutcomeUnknown, match=re.escape("did not say that it sent it")):
        submit(transport, letter())
