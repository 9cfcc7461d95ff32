"""Kinds of e-mail: two in one round, one that is unknown or broken, and kinds that a person paused."""

import pytest

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import accepted, redirect, ship, state, unrendered
from weir.workers.mail import kinds, outbox
from weir.workers.mail.kinds import Content
from weir.workers.mail.models import Email, PausedKind
from weir.workers.mail.phases import EmailState
from weir.workers.mail.sending import runner
from weir.workers.orders.models import Order

pytestmark = [
    pytest.mark.django_db(
        transaction=True, available_apps=["weir.ratelimit", "weir.workers.mail", "weir.workers.orders"]
    ),
    pytest.mark.usefixtures("mail", "messages"),
]


@pytest.fixture(autouse=True)
def _note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind `note`, as an app would; its text needs no database."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))
    kinds.register("note")(lambda: Content(subject="Note", text="Hello"))


def note(key: str, *, priority: int = 0) -> Email:
    return outbox.send_once("note", key, to=f"plain.{key}@customers.example", priority=priority)


def queued(kind: str, key: str) -> Email:
    """Write an e-mail into the outbox as a process does that knows its kind."""
    identity = f"<{kind}-{key}@shop.example>"
    email: Email = Email.objects.create(kind=kind, key=key, message_id=identity, recipient="kim@customers.example")
    return email


def order_of_acceptance(server: MailServer) -> list[str]:
    return [event.message_id for event in server.events() if event.event == "accepted"]


def test_two_kinds_are_sent_in_one_round(mail: MailServer) -> None:
    """Each as its own kind says, although both have the same key."""
    shipped = ship()
    other = note(shipped.key)
    assert runner.send_due().sent == 2
    assert [accepted(mail, email) for email in (shipped, other)] == [1, 1]
    recipients = {event.message_id: event.recipient for event in mail.events() if event.event == "accepted"}
    assert recipients[other.message_id] == f"plain.{shipped.key}@customers.example"
    assert recipients[shipped.message_id] == Order.objects.get(pk=shipped.key).customer_email


def test_an_email_of_an_unknown_kind_fails_alone_and_says_what_to_do(mail: MailServer) -> None:
    """The others of its round are sent."""
    unknown, good = queued("order.lost", "17"), ship()
    report = runner.send_due()
    assert (report.failed, report.sent, report.stopped_because) == (1, 1, "")
    assert state(unknown) == (EmailState.FAILED, 0)
    assert unknown.last_reply.startswith("There is no kind of e-mail 'order.lost'. Add the app")
    assert accepted(mail, good) == 1


def test_an_email_about_nothing_fails_alone_with_the_reason(mail: MailServer) -> None:
    """What it is about was deleted before it was rendered again."""
    bad, good = unrendered(ship()), ship()
    Email.objects.filter(pk=bad.pk).update(context={"order_id": 4711})
    report = runner.send_due()
    assert (report.failed, report.sent) == (1, 1)
    assert (state(bad), bad.last_reply) == (
        (EmailState.FAILED, 0),
        "DoesNotExist: Order matching query does not exist.",
    )
    assert accepted(mail, good) == 1


def test_none_of_a_paused_kind_is_sent_until_it_is_resumed(mail: MailServer) -> None:
    """E-mails of other kinds are."""
    shipped, other = ship(), note("1")
    paused = PausedKind.objects.create(kind="note", who="kim", why="a wrong price")
    assert runner.send_due().sent == 1
    assert [accepted(mail, email) for email in (shipped, other)] == [1, 0]
    paused.delete()
    assert runner.send_due().sent == 1
    assert state(other) == (EmailState.SENT, 1)


def test_those_of_a_higher_priority_go_first_and_then_those_that_wait_longest(mail: MailServer) -> None:
    """Whatever their kinds."""
    first, second = note("1"), ship()
    low, high = note("2", priority=-1), note("3", priority=100)
    third = note("4")
    before = len(order_of_acceptance(mail))
    for email in (high, first, second, third, low):
        redirect(email, "plain")
    while runner.send_due(limit=1).sent:
        pass
    expected = [email.message_id for email in (high, first, second, third, low)]
    assert order_of_acceptance(mail)[before:] == expected


def test_a_kind_is_registered_once_and_by_a_name_that_a_message_id_can_begin_with() -> None:
    """Anything else is a mistake that is reported when the process starts."""
    with pytest.raises(ValueError, match="two kinds of e-mail 'note'"):
        kinds.register("note")(lambda: Content(subject="", text=""))
    for name in ("", "a b", "order.", "<x>", "x" * 101):
        with pytest.raises(ValueError, match="cannot name a kind"):
            kinds.register(name)
    assert Email._meta.get_field("kind").max_length == kinds.LONGEST_NAME
