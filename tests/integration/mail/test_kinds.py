"""Kinds of e-mail: two in one round, one that is unknown or broken, and how many queries they cost."""

from collections.abc import Collection, Iterable, Mapping
from io import StringIO
from typing import Any, Self

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import accepted, ship, state
from workers.mail import kinds, outbox
from workers.mail.models import Email, State
from workers.mail.sending import runner
from workers.orders.emails import OrderShipped
from workers.orders.models import Order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("mail", "messages")]

ORDERS = 'FROM "orders_order"'


class Note(kinds.Draft):
    """A second kind: its key is the first part of an address, its text needs no database."""

    kind = "note"
    fails = False

    def __init__(self, key: str) -> None:
        self.label, self.recipient = f"note {key}", f"{key}@customers.example"

    @classmethod
    def find(cls, keys: Collection[str]) -> Mapping[str, Self]:
        if cls.fails:
            raise ZeroDivisionError("in find")
        return {key: cls(key) for key in keys if not key.startswith("gone")}

    @classmethod
    def search(cls, beginning: str) -> Iterable[str]:
        return [key for key in ("plain.a", "plain.b") if f"note {key}".startswith(beginning)]

    def content(self) -> kinds.Content:
        return kinds.Content(subject=self.label, text="Hello", html="<p>Hello</p>")


@pytest.fixture(autouse=True)
def _note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an app registered `note`."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))
    kinds.register(Note)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that read orders, of all threads."""
    found: list[str] = []
    execute = psycopg.Cursor.execute

    def note_and_execute(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if ORDERS in str(query):
            found.append(str(query))
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", note_and_execute)
    return found


def queued(kind: str, key: str) -> Email:
    """Write an e-mail into the outbox as a process does that knows its kind."""
    email: Email = Email.objects.create(kind=kind, key=key, message_id=f"<{kind}-{key}@shop.example>")
    return email


def test_two_kinds_are_sent_in_one_round(mail: MailServer) -> None:
    """Each as its own kind says, to the recipient that it names, although both have the same key."""
    shipped = ship()
    note = outbox.add("note", shipped.key)
    assert runner.send_due().sent == 2
    assert [accepted(mail, email) for email in (shipped, note)] == [1, 1]
    recipients = {event.message_id: event.recipient for event in mail.events() if event.event == "accepted"}
    assert recipients[note.message_id] == f"{shipped.key}@customers.example"
    assert recipients[shipped.message_id] == Order.objects.get(pk=shipped.key).customer_email


def test_an_email_of_an_unknown_kind_fails_alone_and_says_what_to_do(mail: MailServer) -> None:
    """No other of its round notices."""
    unknown, good = queued("order.lost", "17"), ship()
    report = runner.send_due()
    assert (report.failed, report.sent, report.stopped_because) == (1, 1, "")
    assert state(unknown) == (State.FAILED, 0)
    assert unknown.last_reply.startswith("There is no kind of e-mail 'order.lost': add the app")
    assert accepted(mail, good) == 1


@pytest.mark.parametrize(
    ("kind", "key", "reason"),
    [
        ("order.shipped", "4711", "What the e-mail is about does not exist: order.shipped '4711'."),
        ("order.shipped", "A-1", "ValueError: Field 'id' expected a number but got 'A-1'."),
        ("order.shipped", "9" * 30, "What the e-mail is about does not exist: order.shipped '999"),
        ("note", "gone.1", "What the e-mail is about does not exist: note 'gone.1'."),
    ],
)
def test_an_email_about_nothing_fails_alone_with_the_reason(kind: str, key: str, reason: str, mail: MailServer) -> None:
    """Also where its key spoils the look-up of all of its kind; the others are then found one by one."""
    bad, good = queued(kind, key), ship()
    report = runner.send_due()
    assert (report.failed, report.sent) == (1, 1)
    assert state(bad) == (State.FAILED, 0)
    assert bad.last_reply.startswith(reason)
    assert accepted(mail, good) == 1


def test_a_kind_that_raises_fails_its_own_emails_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it raised."""
    bad, good = queued("note", "plain.a"), ship()
    monkeypatch.setattr(Note, "fails", True)
    runner.send_due()
    assert (state(bad), bad.last_reply) == ((State.FAILED, 0), "ZeroDivisionError: in find")
    assert state(good) == (State.SENT, 1)


def test_a_database_that_is_away_while_a_batch_is_looked_up_fails_no_email(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round ends, and all go back as if they had not been tried."""
    emails = [ship(), ship()]

    def fail(_keys: Collection[str]) -> Mapping[str, OrderShipped]:
        raise OperationalError("the connection is gone")

    monkeypatch.setattr(OrderShipped, "find", fail)
    with pytest.raises(OperationalError, match="is gone"):
        runner.send_due()
    assert {state(email) for email in emails} == {(State.PENDING, 0)}


# --- queries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 20])
def test_a_batch_costs_one_look_up_of_its_orders(count: int, looked_up: list[str]) -> None:
    """Not one for each e-mail."""
    for _ in range(count):
        ship()
    looked_up.clear()
    assert runner.send_due().sent == count
    assert len(looked_up) == 1


@pytest.mark.parametrize(
    ("command", "state_listed"),
    [(("emails", "list", "--state", "failed"), State.FAILED), (("send_emails", "--dry-run"), State.PENDING)],
)
def test_a_commands_list_costs_one_look_up_of_its_orders(
    command: tuple[str, ...], state_listed: State, looked_up: list[str]
) -> None:
    """With a line for each e-mail."""
    for _ in range(20):
        ship()
    Email.objects.update(state=state_listed, last_reply="no")
    looked_up.clear()
    output = StringIO()
    call_command(*command, stdout=output)
    assert output.getvalue().count("order.shipped") == 20
    assert len(looked_up) == 1


def test_a_page_of_the_admin_costs_the_same_however_many_it_lists(admin_client: Client) -> None:
    """Of two kinds: one query for the orders, none for the notes."""

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            admin_client.get(reverse("admin:mail_email_changelist"))
        assert sum(ORDERS in query["sql"] for query in captured) == 1
        return len(captured)

    ship()
    outbox.add("note", "plain.a")
    few = queries()
    for _ in range(10):
        ship()
    assert queries() == few


# --- the admin's search and lists, where a kind is unknown --------------------------------------------


def test_the_admin_finds_emails_of_every_kind_by_their_labels(admin_client: Client) -> None:
    """And only those whose label begins so."""
    shipped, note = ship(), outbox.add("note", "plain.b")
    number = OrderShipped.find([shipped.key])[shipped.key].label
    other = outbox.add("note", shipped.key)  # of another kind, with the same key

    def listed(query: str) -> set[int]:
        page = admin_client.get(reverse("admin:mail_email_changelist"), {"q": query})
        return {email.pk for email in page.context["cl"].result_list}

    assert listed(number) == {shipped.pk}
    assert listed("note plain.") == {note.pk}
    assert listed("no such label") == set()
    assert listed("") == {shipped.pk, note.pk, other.pk}


def test_an_email_of_an_unknown_kind_is_listed_by_its_key(admin_client: Client) -> None:
    """In the admin and by the command."""
    queued("order.lost", "key-4711")
    Email.objects.update(state=State.FAILED, last_reply="no such kind")
    assert "key-4711" in admin_client.get(reverse("admin:mail_email_changelist")).content.decode()
    output = StringIO()
    call_command("emails", "list", "--state", "failed", stdout=output)
    assert "order.lost" in output.getvalue()
    assert "key-4711" in output.getvalue()


# --- registering --------------------------------------------------------------------------------------


def test_a_kind_is_registered_once_and_by_a_name_that_a_message_id_can_begin_with() -> None:
    """Anything else is a mistake that shows when the process starts."""
    with pytest.raises(ValueError, match="two kinds of e-mail 'note'"):
        kinds.register(Note)
    for name in ("", "a b", "order.", "<x>"):
        with pytest.raises(ValueError, match="cannot name a kind"):
            kinds.register(type("Bad", (Note,), {"kind": name}))
