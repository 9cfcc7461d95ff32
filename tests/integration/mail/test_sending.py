"""send_due, with a real mail server: the outcome of each e-mail, and that none holds up another."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.transaction import TransactionManagementError
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Eventually, InThreads, database_now, waiting_for_nobody
from tests.integration.mail.shipments import (
    MARKS,
    ConnectedTransport,
    accepted,
    place,
    scripted_server,
    sending_meanwhile,
    ship,
    state,
    unrendered,
    use,
)
from tests.set_up import needs_own_sessions
from tests.waiting import in_time
from weir.conf import settings as weir_settings
from weir.workers.mail import kinds, rendering
from weir.workers.mail.message import Message
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, outcomes, routes, runner, sender, source
from weir.workers.mail.sending.source import Held
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import Accepted, BrokenOff
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = MARKS
GREETING = [b"220 mail.example\r\n", b"250 mail.example\r\n"]


def due_again() -> None:
    """Make everything that waits for its next attempt due."""
    Email.objects.filter(state=EmailState.PENDING).update(next_attempt_at=Now())


def test_what_is_due_is_sent_once(mail: MailServer) -> None:
    """A second call finds nothing to do."""
    emails = [ship() for _ in range(3)]
    report = runner.send_due()
    assert (report.sent, report.postponed, report.failed, report.unknown, report.given_back) == (3, 0, 0, 0, 0)
    assert runner.send_due() == runner.SendReport()
    for email in emails:
        assert state(email) == (EmailState.SENT, 1)
        assert email.sent_at is not None
        assert abs(email.sent_at - database_now()) < timedelta(minutes=1)
        assert email.last_reply == "250 OK"
        assert accepted(mail, email) == 1


def test_what_is_not_due_yet_is_left_alone(mail: MailServer) -> None:
    """The database's clock decides."""
    email = ship()
    Email.objects.update(next_attempt_at=Now() + timedelta(seconds=60))
    assert runner.send_due().sent == 0
    assert not accepted(mail, email)


@pytest.mark.parametrize(
    ("word", "first", "in_the_end"),
    [
        ("refuse", EmailState.FAILED, EmailState.FAILED),
        ("refuse-content", EmailState.FAILED, EmailState.FAILED),
        ("greylist-1", EmailState.PENDING, EmailState.SENT),
        ("closing", EmailState.PENDING, EmailState.SENT),
        ("cut-unaccepted", EmailState.UNKNOWN, EmailState.UNKNOWN),
        ("cut-accepted", EmailState.UNKNOWN, EmailState.UNKNOWN),
        ("cut-after-reply", EmailState.SENT, EmailState.SENT),
        ("late-300", EmailState.SENT, EmailState.SENT),
    ],
)
def test_what_the_server_does_decides_what_becomes_of_it(
    mail: MailServer, word: str, first: EmailState, in_the_end: EmailState
) -> None:
    """Each ends as it must, and the ordinary e-mail right after it is sent."""
    email, next_one = ship(word), ship()
    runner.send_due()
    assert state(email) == (first, 1)
    assert state(next_one) == (EmailState.SENT, 1)
    due_again()
    runner.send_due()
    assert state(email)[0] == in_the_end
    assert accepted(mail, email) == {EmailState.SENT: 1, EmailState.FAILED: 0}.get(
        in_the_end, int(word == "cut-accepted")
    )


def test_refused_for_now_it_is_tried_later_until_the_attempts_are_used_up(settings: Settings) -> None:
    """One second later, then two; then it has failed, and says why."""
    settings.WEIR_MAIL_MAX_ATTEMPTS = 3
    email = ship("greylist-9")
    for attempts, longest_s in ((1, 1.0), (2, 2.0)):
        assert runner.send_due().postponed == 1
        assert state(email) == (EmailState.PENDING, attempts)
        assert longest_s / 2 - 0.5 < (email.next_attempt_at - database_now()).total_seconds() <= longest_s
        due_again()
    runner.send_due()
    assert state(email) == (EmailState.FAILED, 3)
    assert email.last_reply == "Given up after 3 attempts: 451 4.7.1 Come back later"


def test_what_cannot_be_written_fails_alone_and_before_any_connection(mail: MailServer, settings: Settings) -> None:
    """With the reason; no mail server need be running."""
    bad = Order.objects.create(number="9\nBcc: all@customers.example", customer_email="kim@customers.example")
    shipping.ship(bad.pk)
    lost = place()
    Order.objects.filter(pk=lost.pk).update(customer_email="nobody")
    shipping.ship(lost.pk)
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    report = runner.send_due()
    assert (report.failed, report.stopped_because) == (2, "")
    settings.EMAIL_PORT = port
    good = ship()
    assert runner.send_due().sent == 1
    assert accepted(mail, good) == 1
    assert "line break" in bad.shipped_email.last_reply
    assert state(bad.shipped_email) == (EmailState.FAILED, 0)
    assert "not an e-mail address" in lost.shipped_email.last_reply


@pytest.mark.parametrize("word", ["stall-2500", "late-2500"])
def test_an_email_that_the_server_hangs_on_delays_no_other_by_a_second(
    mail: MailServer, eventually: Eventually, word: str
) -> None:
    """Others go over another connection, including those that are shipped meanwhile."""
    slow = ship(word)
    others = [ship() for _ in range(5)]
    shipped_at = time.time_ns()
    with sending_meanwhile():
        eventually(lambda: all(accepted(mail, email) for email in others), "the others to be accepted")
        late = ship()
        late_at = time.time_ns()
        eventually(lambda: accepted(mail, late), "one that is shipped meanwhile to be accepted")
        assert state(slow)[0] != EmailState.SENT
    accepted_at = {event.message_id: event.at_ns for event in mail.events() if event.event == "accepted"}
    in_time(all(accepted_at[email.message_id] - shipped_at < 1e9 for email in others), "the others waited for it")
    in_time(accepted_at[late.message_id] - late_at < 1e9, "the one that was shipped meanwhile waited for it")
    assert state(slow) == (EmailState.SENT, 1)


def old_transactions(other: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Return the transactions of others that are older than the looking and claiming of senders, with their locks."""
    other.rollback()  # otherwise pg_stat_activity shows the same again
    return other.execute("""
        SELECT query, locktype, relation::regclass, mode FROM pg_stat_activity LEFT JOIN pg_locks USING (pid)
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
            AND xact_start < clock_timestamp() - interval '300 ms'
    """).fetchall()


@pytest.mark.parametrize("word", ["stall-2500", "late-2500"])
def test_nothing_is_locked_and_no_transaction_is_open_while_an_email_is_sent(
    other_connection: Any, eventually: Eventually, word: str
) -> None:
    """pg_locks and pg_stat_activity, looked at while the server hangs; the order can be written meanwhile."""
    email = ship(word)
    others = [ship() for _ in range(3)]
    with sending_meanwhile():
        eventually(lambda: all(state(other)[0] == EmailState.SENT for other in others), "the others to be sent")
        assert state(email)[0] in (EmailState.CLAIMED, EmailState.SENDING)
        # One that is open while the server hangs stays open; a short one may look old if the machine stood still.
        eventually(lambda: not old_transactions(other_connection), "old transactions to end")
        other_connection.execute("SET lock_timeout = '100ms'")
        other_connection.execute("UPDATE weir_orders_order SET number = number || '!' WHERE id = %s", [int(email.key)])
        other_connection.rollback()
        assert state(email)[0] in (EmailState.CLAIMED, EmailState.SENDING)
    assert state(email) == (EmailState.SENT, 1)


def test_a_server_that_cannot_be_reached_costs_no_attempt_and_no_email(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All e-mails go back; after a few failures the server is left alone for a while; then everything is sent."""
    monkeypatch.setattr(relays, "server_name", lambda: "mail.example:25")
    emails = [ship() for _ in range(60)]
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    for _ in range(3):
        report = runner.send_due()
        assert (report.given_back, report.sent) == (50, 0)
        assert "refused" in report.stopped_because
        assert {state(email) for email in emails} == {(EmailState.PENDING, 0)}
    report = runner.send_due()
    assert report.given_back == 0
    assert "could not be reached lately" in report.stopped_because
    settings.EMAIL_PORT = port
    assert runner.send_due().sent == 0
    routes.forget_failures()
    assert runner.send_due().sent == 60


def test_a_server_that_wants_a_login_in_the_middle_is_as_one_that_cannot_be_reached(settings: Settings) -> None:
    """No e-mail is to blame. One of each kind is tried."""
    emails = [ship(), ship()]
    with scripted_server(settings, [*GREETING, b"530 5.7.0 Authentication required\r\n"]):
        report = runner.send_due()
    assert (report.given_back, report.failed) == (2, 0)
    assert "530" in report.stopped_because
    assert {state(email) for email in emails} == {(EmailState.PENDING, 0)}


def test_a_connection_that_ends_between_two_emails_costs_no_attempt(settings: Settings) -> None:
    """The next one goes over a new connection."""
    emails = [ship(), ship()]
    one = [*GREETING, b"250 OK\r\n", b"250 OK\r\n", b"354 Go\r\n", b"250 OK\r\n"]
    with scripted_server(settings, one, [*one, b"221 Bye\r\n"]):
        assert runner.send_due().sent == 2
    assert {state(email) for email in emails} == {(EmailState.SENT, 1)}


def test_what_a_dead_worker_had_claimed_is_sent_when_its_lease_is_over(mail: MailServer) -> None:
    """Not before, and not by that worker, should it be alive after all."""
    email = ship()
    (claimed,) = leases.claim(10, uuid4())
    assert runner.send_due().sent == 0
    Email.objects.update(claimed_until=Now() - timedelta(seconds=1))
    assert runner.send_due().sent == 1
    with pytest.raises(leases.ClaimLost):
        leases.begin(claimed, "relay", None)
    assert not sender.Sender(relays.relays()).deliver(Held(claimed, claimed.rendering)).outcome
    assert state(email) == (EmailState.SENT, 1)
    assert accepted(mail, email) == 1


def test_a_worker_that_is_slow_to_begin_renews_its_lease(
    mail: MailServer, settings: Settings, eventually: Eventually
) -> None:
    """So that no other process takes the e-mail while the mail server thinks about its recipient."""
    settings.WEIR_MAIL_LEASE = 1.0
    email = ship("stall-2500")
    taken_back: list[int] = []

    def is_accepted() -> bool:
        taken_back.append(leases.take_back_abandoned())
        return accepted(mail, email) > 0

    with sending_meanwhile():
        eventually(is_accepted, "the e-mail to be accepted")
    assert sum(taken_back) == 0
    assert state(email) == (EmailState.SENT, 1)


def test_a_connection_that_ends_again_at_once_costs_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more try is owed to a connection that had served before, not to a new one."""
    tries: list[str] = []

    class Gone(ConnectedTransport):
        def submit(self, written: Message, begin: Any) -> Accepted:
            tries.append(written.recipient)
            if len(tries) > 1:
                raise BrokenOff("gone", Phase.NOT_BEGUN)
            begin()
            return Accepted("250 OK")

    use(monkeypatch, Gone)
    emails = [ship(), ship()]
    runner.send_due(limit=2)
    assert len(tries) == 3
    assert [state(email) for email in emails] == [(EmailState.SENT, 1), (EmailState.PENDING, 1)]


def test_what_a_dead_worker_was_sending_becomes_unknown_and_is_never_sent_by_itself(
    mail: MailServer,
) -> None:
    """After WEIR_MAIL_UNKNOWN_AFTER, with what is known; an operator's log has it."""
    email = ship()
    (claimed,) = leases.claim(10, uuid4())
    leases.begin(claimed, "relay", None)
    assert runner.send_due() == runner.SendReport()
    after = timedelta(seconds=weir_settings.WEIR_MAIL_UNKNOWN_AFTER + 1)
    Email.objects.update(sending_since=Now() - after)
    assert runner.send_due().unknown == 1
    assert state(email)[0] == EmailState.UNKNOWN
    assert (email.phase, email.last_reply) == (Phase.BEGUN, leases.NO_WORD)
    due_again()
    assert runner.send_due() == runner.SendReport()
    assert not accepted(mail, email)


def test_a_worker_that_was_only_slow_may_still_say_what_became_of_it() -> None:
    """Unknown becomes sent, as long as no person has resolved it."""
    email = ship()
    (claimed,) = leases.claim(10, uuid4())
    leases.begin(claimed, "relay", None)
    Email.objects.update(sending_since=Now() - timedelta(days=1))
    runner.send_due()
    assert leases.record(claimed, outcomes.accepted(Accepted("250 OK")))
    assert state(email) == (EmailState.SENT, 1)
    assert not leases.record(claimed, outcomes.accepted(Accepted("250 OK")))
    assert state(email) == (EmailState.SENT, 1)


def test_an_email_can_be_sent_although_its_order_is_locked(other_connection: Any) -> None:
    """Another transaction may keep the order locked for any time."""
    email = ship()
    other_connection.execute("SELECT FROM weir_orders_order WHERE id = %s FOR UPDATE", [int(email.key)])
    assert runner.send_due().sent == 1


def test_several_at_once_share_the_work(
    mail: MailServer, in_threads: InThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each e-mail is sent by one of them."""
    monkeypatch.setattr(source, "BATCH", 10)
    emails = [ship() for _ in range(80)]
    reports = in_threads(4, lambda _: runner.send_due())
    assert sum(report.sent for report in reports) == len(emails)
    received = mail.received()
    assert [received[email.message_id] for email in emails] == [1] * len(emails)


def test_what_another_one_is_about_to_claim_is_left_to_it(other_connection: Any) -> None:
    """No sender waits for it, and none takes it over."""
    others, *ours = [ship() for _ in range(3)]
    other_connection.execute("SELECT FROM weir_mail_email WHERE id = %s FOR UPDATE", [others.pk])
    with waiting_for_nobody():
        assert leases.claim(10, uuid4()) == ours


def test_sending_inside_a_transaction_is_refused() -> None:
    """A claim must be committed before anything is sent."""
    email = ship()
    with pytest.raises(TransactionManagementError, match="send_due"), transaction.atomic():
        runner.send_due()
    assert state(email) == (EmailState.PENDING, 0)


def test_a_template_that_breaks_for_one_email_is_in_no_others_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the template raises."""
    bad, good = unrendered(ship()), unrendered(ship())
    write = rendering._message

    def break_for_bad(email: Email, recipient: str, content: kinds.Content) -> Any:
        if email.message_id == bad.message_id:
            raise ZeroDivisionError("in a template tag")
        return write(email, recipient, content)

    monkeypatch.setattr(rendering, "_message", break_for_bad)
    runner.send_due()
    assert state(bad) == (EmailState.FAILED, 0)
    assert bad.last_reply == "ZeroDivisionError: in a template tag"
    assert state(good) == (EmailState.SENT, 1)


@needs_own_sessions
def test_what_became_of_an_email_is_written_also_where_postgres_was_away_for_a_moment(
    eventually: Eventually, other_connection: Any
) -> None:
    """The connection that began it is ended while the server thinks; the outcome is written over a new one."""
    email = ship("late-700")
    with sending_meanwhile():
        eventually(lambda: state(email)[0] == EmailState.SENDING, "the transmission to begin")
        other_connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND query LIKE '%%weir_mail_email%%' AND pid <> %s",
            [connection.connection.info.backend_pid],
        )
    assert state(email) == (EmailState.SENT, 1)


def test_a_mail_server_of_another_kind_can_be_used(settings: Settings, tmp_path: Path) -> None:
    """Django's own backends send, too."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path / "sent")
    email = ship()
    assert runner.send_due().sent == 1
    (file,) = (tmp_path / "sent").iterdir()
    assert email.message_id in file.read_text()
