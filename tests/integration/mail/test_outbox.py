"""The outbox's rows: what is queued once, of what a worker hears, and what the database refuses."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import InThreads, Message, database_now
from tests.integration.mail.shipments import DATABASE, accepted, ship, state
from workers import task_names
from workers.mail import kinds, outbox
from workers.mail.addresses import CannotBeWritten
from workers.mail.kinds import Content
from workers.mail.models import Email, Rendering
from workers.mail.phases import State
from workers.mail.sending import runner

pytestmark = DATABASE

SEND_MESSAGE = (task_names.SEND_EMAILS, ())


@pytest.fixture(autouse=True)
def _note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an app registered `note`, which says what it is told."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    @kinds.register("note")
    def note(*, text: str = "Hello", subject: str = "Note") -> Content:
        return Content(subject=subject, text=text)


def note(key: str = "17", **changes: Any) -> Email:
    """Queue a note."""
    return outbox.send_once("note", key, **{"to": "kim@customers.example", **changes})


def test_the_first_call_counts_and_later_ones_return_its_email(messages: list[Message], in_threads: InThreads) -> None:
    """One after the other, and at once; a worker hears of it once."""
    emails = in_threads(8, lambda number: note(context={"text": f"text {number}"}))
    assert {email.pk for email in emails} == {note().pk}
    assert Email.objects.count() == 1
    assert Rendering.objects.count() == 1
    assert messages == [SEND_MESSAGE]


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


def test_what_rolls_back_was_never_queued(messages: list[Message]) -> None:
    """Nor does a worker hear of it."""
    with transaction.atomic():
        note()
        transaction.set_rollback(True)
    assert not Email.objects.exists()
    assert not Rendering.objects.exists()
    assert messages == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"to": "kim"}, "'kim' is no e-mail address"),
        ({"to": "Kim <kim@x.example>, <all@x.example>"}, "no e-mail address"),
        ({"to": "kim@x.example\nBcc: all@x.example"}, "line break"),
        ({"to": f"{'x' * 201} <kim@x.example>"}, "no e-mail address"),
        ({"key": ""}, "1 to 100 characters"),
        ({"key": "x" * 101}, "1 to 100 characters"),
        ({"key": "a\0b"}, "1 to 100 characters"),
        ({"context": {"text": object()}}, "The context must be JSON"),
        ({"context": {"text": float("nan")}}, "The context must be JSON"),
        ({"context": {"text": ("a", "b")}}, "it has tuples"),
        ({"context": {1: "x"}}, "keys that are no strings"),
        ({"context": {"text": "a\0b"}}, "no NUL"),
        ({"key": "a\ud83d"}, "1 to 100 characters"),
        ({"context": {"text": "a\ud83d"}}, "must be JSON.*surrogates"),
        ({"to": "Kim \ud83d <kim@x.example>"}, "control character"),
        ({"context": {"text": "x" * 70_000}}, "65536 bytes"),
        ({"context": {"txt": "x"}}, "TypeError: .* unexpected keyword argument 'txt'"),
        ({"context": {"subject": "a\nb"}}, "line break"),
        ({"language": "klingon"}, "no language 'klingon'"),
        ({"not_before": datetime(2026, 11, 3)}, "must say its time zone"),  # noqa: DTZ001  what is refused
        ({"priority": 101}, "priority is -100 to 100"),
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


def test_an_email_of_a_kind_that_no_app_has_registered_is_refused(messages: list[Message]) -> None:
    """With the name that may have been meant."""
    with pytest.raises(kinds.UnknownKind, match=r"'notes'\. Did you mean note\?"):
        outbox.send_once("notes", "17", to="kim@customers.example")
    assert not Email.objects.exists()
    assert messages == []


@pytest.mark.usefixtures("messages")
def test_what_must_be_stored_whatever_it_is_fails_in_a_mailer_and_says_why() -> None:
    """Unless it can be rendered by then."""
    bad = note("bad", to="kim", raises=False)
    good = note("good", context={"subject": "a\nb"}, raises=False)
    kinds._kinds["note"] = lambda **_context: Content(subject="Right", text="Right")
    assert runner.send_due().failed == 1
    assert (state(bad), bad.last_reply) == ((State.FAILED, 0), "'kim' is no e-mail address.")
    assert (state(good), good.subject) == ((State.SENT, 1), "Right")


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("to", ["kim\0@customers.example", "kim\ud83d@customers.example"])
def test_an_address_that_postgres_would_refuse_is_stored_all_the_same(to: str) -> None:
    """Where the e-mail must not stop the caller's transaction."""
    with transaction.atomic():
        email = note(to=to, raises=False)
    assert runner.send_due().failed == 1
    assert (state(email), email.recipient) == ((State.FAILED, 0), "")


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("query", ["SELECT 1 / 0", "SET LOCAL statement_timeout = 10; SELECT pg_sleep(10)"])
def test_a_kind_whose_query_fails_does_not_stop_the_callers_transaction(query: str) -> None:
    """PostgreSQL aborts what the query was part of: that is not the caller's own work."""

    def failing(**_context: Any) -> Content:
        with connection.cursor() as cursor:
            cursor.execute(query)
        raise AssertionError

    kinds._kinds["note"] = failing
    with transaction.atomic():
        email = note(raises=False)
        ship()
    assert Email.objects.count() == 2
    assert (state(email), email.renderings) == ((State.PENDING, 0), 0)


@pytest.mark.usefixtures("messages", "mail")
def test_an_email_is_not_sent_before_its_time() -> None:
    """And then it is."""
    email = note(not_before=database_now() + timedelta(hours=1))
    assert runner.send_due().sent == 0
    Email.objects.update(next_attempt_at=Now())
    assert runner.send_due().sent == 1
    assert state(email) == (State.SENT, 1)


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
