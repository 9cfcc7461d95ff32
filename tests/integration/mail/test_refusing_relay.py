"""A relay that refuses us, whatever the e-mail: no e-mail pays for that."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, NoReturn

import pytest
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.mail.shipments import (
    MARKS,
    ConnectedTransport,
    accepted,
    scripted_server,
    ship,
    state,
    unrendered,
    use,
)
from tests.integration.mail.test_sending import due_again
from tests.waiting import in_time, wait_for
from weir.ratelimit.models import Site
from weir.workers.mail import kinds
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import refusals, routes, runner, source
from weir.workers.mail.transports.base import Accepted, BrokenOff, RelayRefuses
from weir.workers.orders.models import Order

pytestmark = MARKS
HELLO = [b"220 mail.example\r\n", b"250 mail.example\r\n"]
OK = b"250 OK\r\n"
BATCH = 12
MANY = 3 * BATCH  # more than one batch
GO_AHEAD = [OK, OK, b"354 Go ahead\r\n"]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the batches small, so that no test needs hundreds of e-mails."""
    monkeypatch.setattr(source, "BATCH", BATCH)


@pytest.fixture(autouse=True)
def _pauses_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process' pauses outlast each test."""
    monkeypatch.setattr(refusals, "PAUSE_S", 600.0)


def ship_many(number: int) -> None:
    """Make this many e-mails that are due, in two statements."""
    orders = Order.objects.bulk_create(
        Order(number=f"R-{index}", customer_email=f"plain.r{index}@customers.example") for index in range(number)
    )
    like = unrendered(ship())
    Email.objects.bulk_create(
        Email(
            kind=like.kind,
            key=str(order.pk),
            recipient=order.customer_email,
            context={"order_id": order.pk},
            message_id=f"<r-{order.pk}@shop.example>",
        )
        for order in orders
    )


@pytest.mark.parametrize("status", ["550-5-4-5", "452-4-3-1", "450-4-7-1", "550-5-7-1"])
def test_a_sender_who_is_refused_costs_no_email_and_no_attempt(
    mail: MailServer, settings: Settings, status: str
) -> None:
    """All wait, but for one that is tried from time to time; each round says why. Then all are sent."""
    ship_many(MANY - 1)
    friendly, settings.DEFAULT_FROM_EMAIL = settings.DEFAULT_FROM_EMAIL, f"says-{status}@shop.example"
    before = len(mail.events())
    report = runner.send_due()
    assert "refuses us, or what is due" in report.stopped_because
    assert status.replace("-", " ", 1).replace("-", ".") in report.stopped_because
    assert (report.sent, report.failed, report.postponed, report.unknown) == (0, 0, 0, 0)
    for _ in range(3):
        due_again()
        assert "refuses us" in runner.send_due().stopped_because
    assert set(Email.objects.values_list("state", "attempts")) == {(EmailState.PENDING, 0)}
    began = [event for event in mail.events()[before:] if event.event == "began"]
    assert len(began) == 1
    tried = Email.objects.exclude(last_reply="")
    assert 0 < len(tried) <= len(began)
    assert {status[:3] in email.last_reply for email in tried} == {True}
    settings.DEFAULT_FROM_EMAIL = friendly
    routes.forget_failures()
    due_again()
    assert runner.send_due().sent == MANY


def test_an_email_that_meets_the_refusal_goes_behind_those_that_wait(settings: Settings) -> None:
    """One that the relay would refuse for ever, such as to a domain that it does not relay to, stops no other.

    They go over the same connection.
    """
    first, second = ship(), ship()
    talk = [*HELLO, OK, b"554 5.7.1 Relay access denied\r\n", OK, *GO_AHEAD, OK, b"221 Bye\r\n"]
    with scripted_server(settings, talk):
        report = runner.send_due()
    assert (report.sent, report.given_back, report.stopped_because) == (1, 1, "")
    assert [state(first), state(second)] == [(EmailState.PENDING, 0), (EmailState.SENT, 1)]
    assert "Relay access denied" in first.last_reply


def test_a_refusal_of_us_after_the_dot_is_certain_too(settings: Settings) -> None:
    """The e-mail is pending again, not left in `sending`."""
    email = ship()
    talk = [*HELLO, *GO_AHEAD, b"550 5.4.5 Daily sending quota exceeded\r\n", b"221 Bye\r\n"]
    with scripted_server(settings, talk):
        report = runner.send_due()
    assert "5.4.5 Daily sending quota exceeded" in report.stopped_because
    assert state(email) == (EmailState.PENDING, 0)


@pytest.mark.parametrize("before", [[], [OK], [OK, OK]])
@pytest.mark.parametrize("said", [b"421 too many messages in this connection\r\n", b"421 4.7.0 Limit reached\r\n"])
def test_a_server_that_leaves_after_some_emails_costs_no_attempt(
    settings: Settings, before: list[bytes], said: bytes
) -> None:
    """421 on a connection that has carried one: the e-mail goes over the next one immediately, and slows no domain."""
    emails = [ship(), ship()]
    first = [*HELLO, *GO_AHEAD, OK, *before, said]
    with scripted_server(settings, first, [*HELLO, *GO_AHEAD, OK, b"221 Bye\r\n"]):
        report = runner.send_due()
    assert (report.sent, report.stopped_because) == (2, "")
    assert {state(email) for email in emails} == {(EmailState.SENT, 1)}
    assert not Site.objects.exists()


@pytest.mark.parametrize("before", [[OK], [OK, OK]])
def test_a_server_that_leaves_at_the_first_recipient_costs_that_one_an_attempt(
    settings: Settings, before: list[bytes]
) -> None:
    """Some mean the recipient by 421; no other waits for it."""
    email = ship()
    with scripted_server(settings, [*HELLO, *before, b"421 4.7.0 Try again later\r\n"]):
        assert runner.send_due().stopped_because == ""
    assert state(email) == (EmailState.PENDING, 1)
    assert not Site.objects.exists()


def test_a_server_that_leaves_at_once_costs_no_attempt(settings: Settings) -> None:
    """421 in reply to the first MAIL of a connection: all wait."""
    email = ship()
    with scripted_server(settings, [*HELLO, b"421 4.3.2 Service shutting down\r\n"]):
        assert "shutting down" in runner.send_due().stopped_because
    assert state(email) == (EmailState.PENDING, 0)


def test_an_email_that_is_too_large_fails_alone(settings: Settings) -> None:
    """By the server's reply to MAIL; the next one is sent over the same connection."""
    large, small = ship(), ship()
    talk = [*HELLO, b"552 5.3.4 Message size exceeds fixed limit\r\n", OK, *GO_AHEAD, OK, b"221 Bye\r\n"]
    with scripted_server(settings, talk):
        runner.send_due()
    assert [state(large), state(small)] == [(EmailState.FAILED, 1), (EmailState.SENT, 1)]


def test_a_relay_that_breaks_off_each_email_is_left_alone(mail: MailServer, settings: Settings) -> None:
    """It costs three e-mails an attempt, not all that are due; operators see why the others wait."""
    emails = [ship() for _ in range(10)]
    port = settings.EMAIL_PORT
    with scripted_server(settings, *[[*HELLO, OK]] * 3):
        report = runner.send_due()
    assert_three_were_tried(report, emails)
    settings.EMAIL_PORT = port
    due_again()
    assert runner.send_due().sent == 10
    assert {accepted(mail, email) for email in emails} == {1}


def test_a_relay_that_breaks_off_in_each_content_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a relay behind which a filter has died."""
    emails = [ship() for _ in range(10)]

    class Broken(ConnectedTransport):
        is_connected = False

        def submit(self, _message: Message, begin: Callable[[], None]) -> NoReturn:
            begin()
            raise BrokenOff("reset by peer", Phase.BEFORE_DOT)

    use(monkeypatch, Broken)
    assert_three_were_tried(runner.send_due(), emails)


def assert_three_were_tried(report: runner.SendReport, emails: list[Email]) -> None:
    """Assert that three of ten e-mails were tried; then the relay is left alone."""
    assert (report.postponed, "is left alone for a while" in report.stopped_because) == (3, True)
    assert sorted(state(email) for email in emails) == [(EmailState.PENDING, 0)] * 7 + [(EmailState.PENDING, 1)] * 3
    assert "It breaks off e-mails: " in RelayHold.objects.get().reason


class Picky(ConnectedTransport):
    """A relay that refuses e-mails to `bad`, or to all, in words that are about us."""

    is_connected = False
    refused = ("bad.",)
    after_dot = False

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        if self.after_dot:
            begin()
        if message.recipient.startswith(self.refused):
            raise RelayRefuses("554 5.7.1 Access denied", knows_recipient=True)
        if not self.after_dot:
            begin()
        return Accepted("250 OK")


def due_since(email: Email, minutes: int) -> None:
    """Make the e-mail due since this many minutes ago; a negative number: after so many minutes."""
    Email.objects.filter(pk=email.pk).update(next_attempt_at=Now() - timedelta(minutes=minutes))


@pytest.mark.parametrize("after_dot", [False, True])
def test_an_email_that_is_refused_while_others_are_accepted_fails_in_the_end(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, after_dot: bool
) -> None:
    """Whatever the words are: each later refusal is an attempt, and the others go on in the same round."""
    settings.WEIR_MAIL_MAX_ATTEMPTS = 2
    monkeypatch.setattr(Picky, "after_dot", after_dot)
    use(monkeypatch, Picky)
    bad = ship("bad")
    assert "refuses us, or what is due: 554 5.7.1" in runner.send_due().stopped_because
    assert state(bad) == (EmailState.PENDING, 0)
    for attempts, becomes in ((1, EmailState.PENDING), (2, EmailState.FAILED)):
        due_since(bad, -60)
        ship()
        assert runner.send_due().sent == 1
        due_since(bad, 1)
        ship()
        report = runner.send_due()
        assert (report.sent, report.stopped_because) == (1, "")
        assert state(bad) == (becomes, attempts)
        assert bad.next_attempt_at > timezone.now() or becomes == EmailState.FAILED
    assert bad.last_reply == "Given up after 2 attempts: 554 5.7.1 Access denied"


def test_emails_that_are_refused_with_all_others_cost_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at first, nor again while nothing is accepted, however much was accepted before."""
    use(monkeypatch, Picky)
    ship()
    assert runner.send_due().sent == 1
    monkeypatch.setattr(Picky, "refused", ("",))
    emails = [ship() for _ in range(5)]
    for _ in range(3):
        due_again()
        assert "refuses us" in runner.send_due().stopped_because
    assert {state(email) for email in emails} == {(EmailState.PENDING, 0)}
    assert {email.last_reply for email in emails} >= {"554 5.7.1 Access denied"}


@pytest.mark.parametrize(
    ("talk", "attempts"),
    [
        ([OK, b"554 5.7.1 Relay access denied\r\n", b"221 Bye\r\n"], 1),
        ([*GO_AHEAD, b"550 5.4.5 Daily sending quota exceeded\r\n", b"221 Bye\r\n"], 1),
        ([b"550 5.7.1 Not from here\r\n", b"221 Bye\r\n"], 0),  # to MAIL: the server knows only us by then
    ],
)
def test_a_refusal_may_be_the_recipients_once_the_server_knows_that(
    settings: Settings, talk: list[bytes], attempts: int
) -> None:
    """A server that has accepted another e-mail since it was asked about this one."""
    bad = ship()
    accepting = [*HELLO, *GO_AHEAD, OK, b"221 Bye\r\n"]
    with scripted_server(settings, [*HELLO, *talk], accepting, [*HELLO, *talk]):
        runner.send_due()
        routes.forget_failures()  # a while later
        due_since(bad, -60)
        ship()
        assert runner.send_due().sent == 1
        due_since(bad, 1)
        runner.send_due()
    assert state(bad) == (EmailState.PENDING, attempts)


# --- who is to blame -----------------------------------------------------------------------------------------------


class Choosy(Picky):
    """A relay that accepts e-mails to `good` only; `asked` has the recipients in their order."""

    asked: ClassVar[list[str]] = []

    def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
        self.asked.append(message.recipient)
        if "good" not in message.recipient:
            raise RelayRefuses("554 5.7.1 Access denied", knows_recipient=True)
        begin()
        return Accepted("250 OK")


@pytest.fixture
def choosy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Use the choosy relay, with short pauses; return the recipients that it was asked about."""
    monkeypatch.setattr(refusals, "PAUSE_S", 0.05)
    monkeypatch.setattr(Choosy, "asked", [])
    use(monkeypatch, Choosy)
    return Choosy.asked


def shipped(recipients: list[str]) -> list[int]:
    """Make an e-mail to each of these that is due, in this order; return their ids."""
    like = unrendered(ship())
    Email.objects.all().delete()
    rows = Email.objects.bulk_create(
        Email(
            kind=like.kind,
            key=str(number),
            recipient=recipient,
            context={"order_id": like.context["order_id"]},
            message_id=f"<w-{number}@shop.example>",
            next_attempt_at=timezone.now() - timedelta(hours=2) + timedelta(seconds=number),
        )
        for number, recipient in enumerate(recipients)
    )
    return [row.pk for row in rows]


def test_good_emails_leave_at_once_behind_any_number_that_are_refused_at_one_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a few of the refused ones are tried."""
    monkeypatch.setattr(Choosy, "asked", [])
    use(monkeypatch, Choosy)
    *_, good = shipped([*(f"x{number}@out.example" for number in range(MANY)), "good@in.example"])
    began = time.monotonic()
    assert runner.send_due().sent == 1
    assert Email.objects.get(pk=good).state == EmailState.SENT
    in_time(
        time.monotonic() - began < refusals.PAUSE_S, "the domain's pause was over, so more of its e-mails were tried"
    )
    assert len(set(Choosy.asked)) == refusals.FEW + 1
    assert (
        Email.objects.filter(state=EmailState.PENDING, attempts=0, next_attempt_at__gt=F("created_at")).count() == MANY
    )


@pytest.mark.parametrize("bad", ["x{}@d{}.example", "x{}@in.example"], ids=["many domains", "the same domain"])
def test_good_emails_leave_behind_any_number_of_refused_ones(choosy: list[str], bad: str) -> None:
    """The refusals do not tell whom they mean. Few e-mails are tried again before all others were tried."""
    recipients = [bad.format(number, number) for number in range(MANY)]
    *_, good = shipped([*recipients, "good@in.example"])

    def is_sent() -> bool:
        Email.objects.filter(last_reply="").update(next_attempt_at=Now() - timedelta(hours=1))  # put off for a second
        runner.send_due()
        return Email.objects.filter(pk=good, state=EmailState.SENT).exists()

    wait_for(is_sent, 60, "the good e-mail", every_s=refusals.PAUSE_S)
    before = choosy[: choosy.index("good@in.example")]
    assert len(before) - len(set(before)) <= 9  # one for each pause, each of which is twice as long as the one before


def test_another_kind_is_tried_where_the_sender_may_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In reply to MAIL, which names only the sender: a kind may have a sender of its own."""

    class OfOneSender(Picky):
        def submit(self, message: Message, begin: Callable[[], None]) -> Accepted:
            asked.append(message.recipient)
            if message.recipient.startswith("x"):
                raise RelayRefuses("553 5.7.1 Sender address rejected", knows_sender=True)
            begin()
            return Accepted("250 OK")

    asked: list[str] = []
    use(monkeypatch, OfOneSender)
    *bad, good = shipped([*(f"x{number}@d{number}.example" for number in range(20)), "good@in.example"])
    kind = Email.objects.get(pk=good).kind
    monkeypatch.setitem(kinds._kinds, "another", kinds.get(kind))
    Email.objects.filter(pk=good).update(kind="another")
    report = runner.send_due()
    assert (report.sent, len(asked)) == (1, 2)
    assert set(Email.objects.filter(pk__in=bad).values_list("state", "attempts")) == {(EmailState.PENDING, 0)}
