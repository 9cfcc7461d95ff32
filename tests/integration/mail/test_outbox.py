"""The outbox's rows: what is queued once, which e-mails send a message to a worker, and what the database refuses."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import IntegrityError, connection, connections, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Eventually, InThreads, Message, WaitersOf, database_now
from tests.integration.mail.notes import note, note_kind  # noqa: F401  a fixture
from tests.integration.mail.shipments import DATABASE, ConnectedTransport, accepted, place, ship, state, use
from weir.postgres import statements
from weir.postgres.statements import Statement
from weir.workers import task_names
from weir.workers.ledger import waking
from weir.workers.ledger.waking import BELIEVED_FOR
from weir.workers.mail import kinds, outbox
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import Content
from weir.workers.mail.message import Message as Transmitted
from weir.workers.mail.models import Email, PausedKind, Rendering
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import runner
from weir.workers.mail.transports.base import Accepted, Refused
from weir.workers.orders.models import Order

pytestmark = [DATABASE, pytest.mark.usefixtures("note_kind")]

SEND_MESSAGE = (task_names.SEND_EMAILS, ())
TOKEN = UUID(int=1)
UNKNOWN = {
    "state": EmailState.UNKNOWN,
    "claim_token": TOKEN,
    "sending_since": Now(),
    "phase": Phase.BEGUN,
    "last_reply": "no reply",
}


def test_the_first_call_counts_and_later_ones_return_its_email(messages: list[Message], in_threads: InThreads) -> None:
    """One after the other, and at the same time; a worker gets one message."""
    emails = in_threads(8, lambda number: note(context={"text": f"text {number}"}))
    assert {email.pk for email in emails} == {note().pk}
    assert Email.objects.count() == 1
    assert Rendering.objects.count() == 1
    assert messages == [SEND_MESSAGE]


def test_the_transaction_of_a_call_that_comes_second_goes_on(
    other_connection: psycopg.Connection[Any], waiters: WaitersOf, eventually: Eventually, messages: list[Message]
) -> None:
    """It waits for the first call's transaction, and returns that call's e-mail."""

    def second() -> tuple[int, int]:
        try:
            with transaction.atomic():
                return note(context={"text": "Second"}).pk, place().pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = note(context={"text": "First"})
            late = pool.submit(second)
            eventually(lambda: waiters(other_connection) == 1, "the second call to wait")
        email, order = late.result(30)
    assert email == first.pk
    assert Order.objects.filter(pk=order).exists()
    assert b"First" in bytes(Rendering.objects.get().content)
    assert messages == [SEND_MESSAGE]


@pytest.mark.usefixtures("messages")
def test_a_later_call_returns_the_email_also_where_what_it_is_about_is_gone() -> None:
    """It is not rendered again, and the later call's recipient is ignored."""
    email = note()

    def gone(**_context: Any) -> Content:
        raise LookupError("It was deleted.")

    kinds._kinds["note"] = gone
    assert note(to="nobody").pk == email.pk
    assert state(email) == (EmailState.PENDING, 0)
    assert email.recipient == "kim@customers.example"


def test_an_email_is_queued_with_its_bytes_or_not_at_all(messages: list[Message]) -> None:
    """Even if the caller has no transaction."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE weir_mail_rendering ADD CONSTRAINT none_is_written CHECK (false)")
        try:
            with pytest.raises(IntegrityError, match="none_is_written"):
                note()
        finally:
            cursor.execute("ALTER TABLE weir_mail_rendering DROP CONSTRAINT none_is_written")
    assert not Email.objects.exists()
    assert messages == []


@pytest.mark.usefixtures("messages")
def test_what_is_sent_is_what_was_said_at_the_call(mail: MailServer) -> None:
    """In the caller's language, to the recipient, with a hash that proves it later, whatever changes meanwhile."""
    email = note(to="Kim Li <kim@BÜCHER.example>", context={"text": "First"}, language="de", priority=5)
    content = bytes(email.rendering.content)
    assert (email.recipient, email.recipient_name, email.language) == ("kim@xn--bcher-kva.example", "Kim Li", "de")
    assert (email.subject, email.renderings, email.content_size) == ("Note", 1, len(content))
    assert email.content_hash == hashlib.sha256(content).hexdigest()
    kinds._kinds["note"] = lambda **_context: Content(subject="Second", text="Second")
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 1
    assert bytes(Rendering.objects.get(pk=email.pk).content) == content
    assert b"First" in content
    assert b"To: Kim Li <kim@xn--bcher-kva.example>" in content


@pytest.mark.usefixtures("messages")
def test_each_attempt_transmits_the_bytes_that_are_stored(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Under the same key; what comes back goes to the address that is set now."""
    tried: list[Transmitted] = []

    class Busy(ConnectedTransport):
        def submit(self, message: Transmitted, begin: object) -> Accepted:
            tried.append(message)
            if len(tried) == 1:
                raise Refused("450 Later", Phase.NOT_BEGUN, is_permanent=False)
            begin()  # type: ignore[operator]  # it can be called
            return Accepted("250 OK")

    use(monkeypatch, Busy)
    email = note(context={"text": "First"})
    content = bytes(email.rendering.content)
    kinds._kinds["note"] = lambda **_context: Content(subject="Second", text="Second")
    settings.DEFAULT_FROM_EMAIL = "The Shop <bounces@shop.example>"
    runner.send_due()
    Email.objects.update(next_attempt_at=Now())
    runner.send_due()
    assert state(email) == (EmailState.SENT, 2)
    assert [message.content for message in tried] == [content, content]
    assert {message.from_address for message in tried} == {"bounces@shop.example"}
    assert {message.idempotency_key for message in tried} == {f"{email.message_id.strip('<>')}/1"}


def test_what_rolls_back_was_never_queued(messages: list[Message]) -> None:
    """Nor does a worker get a message."""
    with transaction.atomic():
        note()
        transaction.set_rollback(True)
    assert not Email.objects.exists()
    assert not Rendering.objects.exists()
    assert messages == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"to": "kim"}, "'kim' is not an e-mail address"),
        ({"to": "Kim <kim@x.example>, <all@x.example>"}, "not an e-mail address"),
        ({"to": "kim@x.example\nBcc: all@x.example"}, "line break"),
        ({"to": "Kim\nBcc: all@x.example <kim@x.example>"}, "line break"),
        ({"to": f"{'x' * 201} <kim@x.example>"}, "not an e-mail address"),
        ({"key": ""}, "1 to 100 characters"),
        ({"key": "x" * 101}, "1 to 100 characters"),
        ({"key": "a\0b"}, "1 to 100 characters"),
        ({"context": {"text": object()}}, "The context must be JSON"),
        ({"context": {"text": float("nan")}}, "such as numbers and strings: Out of range float"),
        ({"context": {"text": float("inf")}}, "such as numbers and strings: Out of range float"),
        ({"context": {"text": ("a", "b")}}, "it has tuples"),
        ({"context": {1: "x"}}, "keys that are not strings"),
        ({"context": {"text": "a\0b"}}, "no NUL"),
        ({"key": "a\ud83d"}, "1 to 100 characters"),
        ({"context": {"text": "a\ud83d"}}, "must be JSON.*surrogates"),
        ({"to": "Kim \ud83d <kim@x.example>"}, "control character"),
        ({"context": {"text": "x" * 70_000}}, "65536 bytes"),
        ({"context": {"txt": "x"}}, r"note does not take txt: it may take .*"),
        ({"context": {"subject": "a\nb"}}, "line break"),
        ({"language": "klingon"}, "no language 'klingon'"),
        ({"not_before": datetime(2026, 11, 3)}, "must have a time zone"),  # noqa: DTZ001  what is refused
        ({"priority": 101}, "priority is -100 to 100"),
        ({"priority": -101}, "priority is -100 to 100"),
    ],
)
def test_what_is_bad_is_refused_in_a_sentence_and_nothing_is_stored(
    changes: dict[str, Any], sentence: str, messages: list[Message]
) -> None:
    """The caller hears it, not the operator an hour later."""
    with pytest.raises(CannotBeWritten, match=sentence):
        note(**{"key": "17", **changes})
    assert not Email.objects.exists()
    assert messages == []


def test_a_language_is_one_of_the_projects(settings: Settings) -> None:
    """Not any language that Django knows; a variant becomes the language that the project has."""
    settings.LANGUAGES = [("en", "English"), ("de", "German"), ("pt-br", "Brazilian Portuguese")]
    with pytest.raises(CannotBeWritten, match="no language 'fr': write one of LANGUAGES, such as en"):
        note("17", language="fr")
    assert [note(code, language=code).language for code in ("de", "de-at", "pt")] == ["de", "de", "pt-br"]


def test_an_email_of_a_kind_that_no_app_has_registered_is_refused(messages: list[Message]) -> None:
    """With the name that may have been meant."""
    with pytest.raises(kinds.UnknownKind, match=r"'notes'\. Did you mean note\?"):
        outbox.send_once("notes", "17", to="kim@customers.example")
    assert not Email.objects.exists()
    assert messages == []


@pytest.mark.usefixtures("messages", "mail")
def test_an_email_is_not_sent_before_its_time() -> None:
    """After its time it is sent. One of its kind that is due does not take it along."""
    email, due = note(not_before=database_now() + timedelta(hours=1)), note("18")
    assert runner.send_due().sent == 1
    assert (state(email), state(due)) == ((EmailState.PENDING, 0), (EmailState.SENT, 1))
    Email.objects.filter(pk=email.pk).update(next_attempt_at=Now())
    assert runner.send_due().sent == 1
    assert state(email) == (EmailState.SENT, 1)


def test_while_an_older_email_is_due_no_further_message_is_sent(messages: list[Message]) -> None:
    """The worker that takes the older one goes on to the others: many orders in a row cost one message."""
    for _ in range(5):
        ship()
    assert messages == [SEND_MESSAGE]
    Email.objects.update(state=EmailState.FAILED, last_reply="no")
    ship()
    assert messages == [SEND_MESSAGE, SEND_MESSAGE]


def test_a_transaction_asks_once_for_each_kind_and_priority_whether_an_older_email_is_due(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an importer queues by the thousand costs one statement after the commit, whatever was rolled back before."""
    asked, does_older_wait = list[object](), outbox._WAKER._does_older_wait

    def ask(**queue: Any) -> list[Any]:
        asked.append(queue["row"])
        return does_older_wait(**queue)

    monkeypatch.setattr(outbox._WAKER, "_does_older_wait", ask)
    with transaction.atomic():
        with suppress(LookupError), transaction.atomic():
            note("rolled back")
            raise LookupError
        first, *_ = [note(str(number)) for number in range(3)]
        urgent = note("urgent", priority=5)
    assert asked == [first.pk, urgent.pk]
    assert messages == [SEND_MESSAGE] * 2
    Email.objects.update(state=EmailState.FAILED, last_reply="no")
    with transaction.atomic():
        later = note("later")
    assert asked == [first.pk, urgent.pk, later.pk]
    assert messages == [SEND_MESSAGE] * 3


def test_an_email_outside_of_a_transaction_costs_two_statements(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One asks whether it is there, the other stores it, and says whether an older one is due."""
    execute, executed = statements.execute, list[str]()

    def note_name(statement: Statement[Any], *arguments: Any) -> list[Any]:
        executed.append(statement.name)
        return execute(statement, *arguments)

    monkeypatch.setattr(statements, "execute", note_name)
    monkeypatch.setattr(waking, "BELIEVED_FOR", timedelta(minutes=1))
    for number in range(3):
        note(str(number))
    assert executed == ["find", "queue"] * 3
    assert messages == [SEND_MESSAGE]


def test_a_call_that_had_to_wait_asks_anew_whether_an_older_email_is_due(
    other_connection: psycopg.Connection[Any], eventually: Eventually, messages: list[Message]
) -> None:
    """Its statement still sees the older one, which may be sent long since: then nobody is about to look."""
    other_connection.autocommit = True
    waits = (
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query_start < clock_timestamp() - %s::interval"
    )

    def second() -> int:
        try:
            return note().pk
        finally:
            connections.close_all()

    older = note("older")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            note()
            late = pool.submit(second)
            eventually(lambda: other_connection.execute(waits, [BELIEVED_FOR]).rowcount, "the second call to wait")
            other_connection.execute(
                "UPDATE weir_mail_email SET state = 'failed', last_reply = 'no' WHERE id = %s", [older.pk]
            )
            transaction.set_rollback(True)
        assert late.result(30) == Email.objects.get(state=EmailState.PENDING).pk
    assert messages == [SEND_MESSAGE] * 2


def test_an_email_that_a_hook_queues_first_keeps_no_message_back(messages: list[Message]) -> None:
    """The hook runs before the one that wakes a worker for the transaction's own e-mail, and finds that one due."""
    with transaction.atomic():
        transaction.on_commit(lambda: note("of the hook"))
        note("of the transaction")
    assert messages == [SEND_MESSAGE]


def test_an_older_email_that_is_not_sent_now_keeps_no_message_back(messages: list[Message]) -> None:
    """Its kind is paused, or it waits for its time: no worker takes it."""
    PausedKind.objects.create(kind="note", who="kim", why="a wrong price")
    note()
    ship()
    assert messages == [SEND_MESSAGE, SEND_MESSAGE]
    Email.objects.update(next_attempt_at=database_now() + timedelta(hours=1))
    ship()
    assert messages == [SEND_MESSAGE] * 3


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"state": "lost"}, "state_known"),
        ({"state": EmailState.SENT}, "sent_has_sent_at"),
        ({"sent_at": Now()}, "sent_has_sent_at"),
        ({"state": EmailState.CLAIMED, "claim_token": TOKEN}, "claimed_has_lease"),
        ({"claimed_until": Now()}, "claimed_has_lease"),
        ({"state": EmailState.CLAIMED, "claimed_until": Now()}, "held_has_token"),
        ({"claim_token": TOKEN}, "held_has_token"),
        ({"state": EmailState.SENDING, "claim_token": TOKEN}, "sending_has_since"),
        ({"sending_since": Now()}, "sending_has_since"),
        ({"state": EmailState.FAILED}, "failed_says_why"),
        ({**UNKNOWN, "phase": ""}, "unknown_says_what_is_known"),
        ({**UNKNOWN, "last_reply": ""}, "unknown_says_what_is_known"),
    ],
)
def test_the_database_refuses_a_state_that_contradicts_itself(changes: dict[str, Any], constraint: str) -> None:
    """Whatever code writes it, in whatever way. Each case breaks only one constraint."""
    email = ship()
    with pytest.raises(IntegrityError, match=constraint):
        Email.objects.filter(pk=email.pk).update(**changes)
