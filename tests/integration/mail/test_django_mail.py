"""Messages that Django sends through OutboxBackend: what is transmitted, to whom, and which of them are one e-mail."""

import logging
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from anymail.message import AnymailMessage, attach_inline_image
from django.core import mail as django_mail
from django.core.mail import EmailMessage, EmailMultiAlternatives, mail_admins, send_mail
from django.core.mail.backends import smtp
from django.db import connection, connections, transaction
from django.db.models import F
from pytest_django import Settings

from demo.fakes.mail_server import ACCEPTED, MailServer
from tests.cases import for_each
from tests.integration.conftest import Eventually, InThreads, Message, WaitersOf
from tests.integration.mail.notes import note, note_kind  # noqa: F401  a fixture
from tests.integration.mail.shipments import DATABASE, scripted_server
from weir.workers import task_names
from weir.workers.mail import kinds, outbox
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.django_mail import written as reading
from weir.workers.mail.django_mail.backend import OutboxBackend
from weir.workers.mail.django_mail.keys import outbox_key
from weir.workers.mail.maintenance import operators
from weir.workers.mail.models import Email, Rendering
from weir.workers.mail.sending import runner

pytestmark = [DATABASE, pytest.mark.usefixtures("note_kind", "mail", "messages")]

HOUR = timedelta(hours=1)
FIXED = {"Date": "Mon, 30 Nov 2026 18:00:00 +0000", "Message-ID": "<17.4711@shop.example>"}
EML = b"From: a@b.example\r\nSubject: Of old\r\nMessage-ID: <1@b.example>\r\n\r\nText\r\n"


@pytest.fixture(autouse=True)
def _outbox(mail: MailServer, settings: Settings) -> None:  # noqa: ARG001  its settings come first
    """The one line that a project adds, beside those that name its mail server."""
    settings.EMAIL_BACKEND = "weir.OutboxBackend"
    settings.WEIR_MAIL_SAME_WITHIN = HOUR.total_seconds()


def send(text: str = "Hello", *, to: str = "kim@customers.example", **fields: Any) -> int:
    """Send a message as a project does."""
    return EmailMessage("Note", text, "Shop <shop@shop.example>", to.split(), **fields).send()


def keys() -> list[str]:
    """Return the keys of all e-mails, without the hash of the recipient, in the order in which they were queued."""
    return [key.rpartition(":")[0] for key in Email.objects.order_by("pk").values_list("key", flat=True)]


def rich(**fields: Any) -> EmailMultiAlternatives:
    """Return a message with all that Django can write."""
    message = EmailMultiAlternatives(
        "Grüße: " + "sehr " * 30,
        "Hallo Käthe,\n.\nfrom here on it is long: " + "x" * 1_200,
        "Kåre & Søn <shop@BÜCHER.example>",
        ["Käthe <kim@customers.example>", "lee@customers.example"],
        cc=["Cc <cc@customers.example>"],
        bcc=["bcc@customers.example", "kim@customers.example"],
        reply_to=["help@shop.example"],
        headers={**FIXED, "List-Unsubscribe": "<https://shop.example/u/7>", "X-Note": "naïve"},
        **fields,
    )
    message.attach_alternative("<p>Hällo</p>", "text/html")
    message.attach("ünï.bin", bytes(range(256)), "application/octet-stream")
    message.attach("note.txt", "Zeile\nnoch eine ä", "text/plain")
    message.attach("old.eml", EML, "message/rfc822")
    return message


def by_django(message: EmailMessage) -> tuple[str, list[str], bytes]:
    """Return what Django's own backend would say to the mail server: the sender, the recipients, and the content."""
    said: list[Any] = []

    class Connection:
        def sendmail(self, *arguments: Any) -> None:
            said.extend(arguments)

    backend = smtp.EmailBackend(host="mail.example")
    backend.connection = Connection()  # type: ignore[assignment]
    random.seed(17)  # of the boundaries
    assert backend.send_messages([message]) == 1
    return said[0], said[1], said[2]


PLAIN: Any = {"to": ["kim@customers.example"], "headers": FIXED}


@for_each(
    "message",
    [
        EmailMessage("Note", "Hello\n\n.\n..dots\nFrom here", "shop@shop.example", **PLAIN),
        EmailMessage("", "", "root@localhost", **PLAIN),
        EmailMessage(
            "Note", "\r\nÄ\r", '"Shop, Ltd" <shop@shop.example>', to=[], bcc=["kim@customers.example"], headers=FIXED
        ),
        EmailMessage(
            "Note", "A", "bounces@shop.example", ["kim@customers.example"], headers={**FIXED, "From": "a@b.example"}
        ),
        rich(),
    ],
)
def test_the_content_and_the_envelope_are_those_of_djangos_own_backend(message: EmailMessage) -> None:
    """To the last byte; each recipient gets it once, and what Weir reads is left out."""
    Email.objects.all().delete()
    sender, recipients, content = by_django(message)
    message.extra_headers["X-Weir-Key"] = "17"
    random.seed(17)
    assert message.send() == 1
    emails = Email.objects.order_by("pk").select_related("rendering")
    assert {bytes(email.rendering.content) for email in emails} == {content}
    plain = dict.fromkeys(each.rpartition("<")[2].removesuffix(">") for each in recipients)
    assert [email.recipient for email in emails] == sorted(plain)
    assert {f"<{email.envelope_sender}>" for email in emails} == {f"<{sender.rpartition('<')[2].removesuffix('>')}>"}
    assert message.extra_headers.pop("X-Weir-Key") == "17"


def test_it_is_transmitted_as_it_is_stored_from_the_sender_of_the_message(settings: Settings) -> None:
    """Through the mail server of EMAIL_HOST, although EMAIL_BACKEND is the outbox."""
    ok = b"250 OK\r\n"
    with scripted_server(
        settings, [b"220 Hi\r\n", b"250-mail.example\r\n250 8BITMIME\r\n", ok, ok, b"354 Go\r\n", ok, ok]
    ) as heard:
        assert send("Grüße") == 1
        assert runner.send_due().sent == 1
    email = Email.objects.get()
    assert heard[1].lower() == b"mail from:<shop@shop.example> body=8bitmime\r\n"
    assert heard[2].lower() == b"rcpt to:<kim@customers.example>\r\n"
    content = bytes(email.rendering.content)
    assert heard[4] == content.removesuffix(b"\r\n") + b"\r\n.\r\n", "Django 6 ends the last line, 5.2 does not"
    assert "Grüße".encode() in heard[4]


def test_each_recipient_gets_a_message_once(mail: MailServer) -> None:
    """Each is an e-mail of its own: one that is refused is not in the way of others."""
    before = len(mail.events())
    send(
        to="ada@customers.example refuse.1@customers.example",
        cc=["cc@customers.example"],
        bcc=["bcc@customers.example"],
    )
    report = runner.send_due()
    assert (report.sent, report.failed) == (3, 1)
    came = [event.recipient for event in mail.events()[before:] if event.event == ACCEPTED]
    assert sorted(came) == ["ada@customers.example", "bcc@customers.example", "cc@customers.example"]
    assert {email.message_id for email in Email.objects.all()} == {Email.objects.first().message_id}  # type: ignore[union-attr]


def test_what_is_rolled_back_is_not_sent(messages: list[Message]) -> None:
    """What is committed wakes a mailer."""
    with transaction.atomic():
        assert send() == 1
        transaction.set_rollback(True)
    assert not Email.objects.exists()
    assert messages == []
    with transaction.atomic():
        send(to="kim@customers.example lee@customers.example")
        assert messages == []
    assert messages == [(task_names.SEND_EMAILS, ())]


def test_the_same_message_is_one_email_within_a_time() -> None:
    """Each in the time counts as sent; the time begins with the one that was queued; another recipient is another."""
    assert [send(), send(), send(to="lee@customers.example"), send("Other")] == [1, 1, 1, 1]
    assert Email.objects.count() == 3
    passed(HOUR - timedelta(minutes=1))
    send()
    assert Email.objects.count() == 3
    passed(timedelta(minutes=2))
    send()
    send()
    assert Email.objects.count() == 4
    passed(timedelta(minutes=59))
    send()
    assert Email.objects.count() == 4


def test_without_that_time_each_message_is_an_email_of_its_own(settings: Settings) -> None:
    settings.WEIR_MAIL_SAME_WITHIN = 0
    send()
    send()
    assert Email.objects.count() == 2


def test_what_changes_by_itself_makes_no_other_message() -> None:
    """Not boundaries, dates, Message-IDs (also of a message that is attached), nor the names of pictures."""

    def forward(text: str) -> None:
        message = EmailMultiAlternatives("Fwd", "See below.", to=["kim@customers.example"])
        picture = attach_inline_image(message, b"GIF89a", "logo.gif")
        message.attach_alternative(f'<p>{"Grüße " * 30}<img src="cid:{picture}"></p>', "text/html")
        inner = EmailMultiAlternatives("Old", text, to=["x@y.example"])
        inner.attach_alternative(f"<p>{text}</p>", "text/html")
        message.attach("old.eml", inner, "message/rfc822")
        assert message.send() == 1

    for text in ("Text", "Text", "Another"):
        forward(text)
    assert Email.objects.count() == 2


def test_of_tasks_that_send_the_same_at_once_one_queues_it(in_threads: InThreads) -> None:
    """Also when the last one has just become too old to be the same: there is one new e-mail, and not eight."""
    assert in_threads(8, lambda _: send()) == [1] * 8
    assert Email.objects.count() == 1
    for times in (2, 3):
        passed(2 * HOUR)
        assert in_threads(8, lambda _: send()) == [1] * 8
        assert Email.objects.count() == times


def test_a_task_that_runs_again_waits_for_the_transaction_of_the_first(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually
) -> None:
    """It queues the message if the first one is rolled back, and not if it commits, however long that took."""

    def second() -> int:
        try:
            return send()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        for is_kept in (True, False):
            Email.objects.all().delete()
            with transaction.atomic():
                send()
                Email.objects.update(created_at=F("created_at") - 2 * HOUR)
                late = pool.submit(second)
                eventually(lambda: waiters(other_connection) == 1, "the second to wait")
                transaction.set_rollback(not is_kept)
            assert late.result(30) == 1
            assert Email.objects.count() == 1


def test_a_block_gives_keys_that_last() -> None:
    """The n-th message of the block is the same, whatever it says and whenever it comes; blocks can be in blocks."""
    for _ in range(2):
        with outbox_key("order-17"):
            send("Thank you")
            send("Invoice", to="kim@customers.example lee@customers.example")
            with outbox_key("copy"):
                send("Copy")
            send("Farewell")
        passed(10 * HOUR)
    once = ["order-17:1", "order-17:2", "order-17:2", "order-17/copy:1", "order-17:3"]
    assert keys() == once
    with outbox_key("order-18"):
        send("Thank you", headers={"x-weir-key": "chosen"})
        send("Thank you", headers={"X-Weir-Key": "chosen"})
        send("Thank you")
    assert keys() == [*once, "chosen", "order-18:1"]
    assert b"x-weir" not in b"".join(bytes(each.content).lower() for each in Rendering.objects.all())


@for_each("key", ["", "x" * 61, "a\nb", "a\0b"])
def test_a_key_that_cannot_be_one_is_refused(key: str) -> None:
    with pytest.raises(CannotBeWritten, match="1 to 60 printable characters"), outbox_key(key):
        pass
    with pytest.raises(CannotBeWritten, match="1 to 60 printable characters"):
        send(headers={"X-Weir-Key": key})
    with outbox_key("o" * 30), pytest.raises(CannotBeWritten), outbox_key("i" * 30):
        pass


def test_a_kind_is_named_by_a_header_or_by_the_backend() -> None:
    """It must be registered as one that comes written: then it is paused, routed and listed like others."""
    kinds.register_written("news.weekly", expires_after=HOUR)
    send(headers={"X-Weir-Kind": "news.weekly"})
    django_mail.get_connection(kind="news.weekly", priority=-5).send_messages(
        [EmailMessage("A", "B", to=["c@d.example"])]
    )
    send()
    assert list(Email.objects.order_by("pk").values_list("kind", "priority")) == [
        ("news.weekly", 0), ("news.weekly", -5), ("django.mail", 0),
    ]  # fmt: skip
    assert all(email.expires_at for email in Email.objects.filter(kind="news.weekly"))
    operators.pause("news.weekly", "Ada", "a mistake")
    assert runner.send_due().sent == 1
    with pytest.raises(kinds.UnknownKind, match=r"news\.weakly"):
        send(headers={"X-Weir-Kind": "news.weakly"})
    with pytest.raises(CannotBeWritten, match="note is a kind that an app renders: register another one"):
        send(headers={"X-Weir-Kind": "note"})
    with pytest.raises(CannotBeWritten, match="OutboxBackend queues them: they cannot be rendered"):
        outbox.send_once("django.mail", "17", to="kim@customers.example")


REFUSED = [
    ({"to": "webmaster"}, "'webmaster' is not an e-mail address"),
    ({"to": " ".join(f"{number}@customers.example" for number in range(101))}, "101 recipients, and may have 100"),
    ({"text": "x" * 501}, "bytes are the most"),
    ({"headers": {"Message-ID": "17"}}, "must be of the form <name@example.com>, but is '17'"),
]


@for_each("fields, sentence", REFUSED)
def test_what_the_outbox_does_not_take_raises_an_error(
    fields: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is queued, for none of its recipients; the caller's transaction goes on."""
    monkeypatch.setattr(reading, "LARGEST", 500)
    with transaction.atomic():
        with pytest.raises(CannotBeWritten, match=sentence):
            send(**fields)
        assert not Email.objects.exists()


def test_what_only_a_provider_would_read_is_refused() -> None:
    """It is not in the bytes, and would be lost without a word."""
    assert AnymailMessage("A", "B", to=["kim@customers.example"]).send() == 1
    with pytest.raises(CannotBeWritten, match="has tags, template_id, for a provider"):
        AnymailMessage("A", "B", to=["kim@customers.example"], template_id="17", tags=["a"]).send()


class SendsLines(logging.Handler):
    """Sends each line of the log to the admins, as Django's AdminEmailHandler does."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        mail_admins("It failed", record.getMessage(), fail_silently=True)


@pytest.fixture
def to_admins(settings: Settings) -> Iterator[SendsLines]:
    """Every line is sent to admins, whose address is none."""
    settings.ADMINS = [("Ada", "nobody")]
    handler = SendsLines()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_what_may_fail_silently_is_logged_and_breaks_no_transaction(to_admins: SendsLines) -> None:
    """Also where the database fails, and where what is logged would be sent the same way, and fail again."""
    with transaction.atomic():
        assert send_mail("A", "B", None, ["webmaster"], fail_silently=True) == 0
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE weir_mail_email ADD CONSTRAINT none_is_written CHECK (false) NOT VALID")
        assert send_mail("A", "B", None, ["kim@customers.example"], fail_silently=True) == 0
        assert not Email.objects.exists()
        transaction.set_rollback(True)
    assert [line.split("error")[0].strip(" {'\"") for line in to_admins.lines] != []
    assert len(to_admins.lines) == 2


def test_a_message_for_nobody_is_none() -> None:
    backend = OutboxBackend()
    assert backend.send_messages([EmailMessage("A", "B"), EmailMessage("A", "B", to=["kim@customers.example"])]) == 1
    assert backend.send_messages([]) == 0


def passed(time: timedelta) -> None:
    """Let this time pass for what is queued."""
    Email.objects.update(created_at=F("created_at") - time)
