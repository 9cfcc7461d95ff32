"""send_due if PostgreSQL, the mail server or an e-mail does something unexpected: nothing is sent twice, or stuck."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any, NoReturn

import pytest
from django.db import InterfaceError, InternalError, OperationalError
from django.db.models.functions import Now
from pytest_django import Settings

from demo.fakes.mail_server import MailServer
from tests.integration.conftest import Eventually, Message
from tests.integration.mail.shipments import (
    MARKS,
    ConnectedTransport,
    accepted,
    redirect,
    scripted_server,
    sending_meanwhile,
    ship,
    state,
    unrendered,
    use,
)
from weir.workers import task_names
from weir.workers.ledger import patience
from weir.workers.ledger.leases import NOTHING_SAID
from weir.workers.ledger.outcomes import Outcome
from weir.workers.mail import kinds, rendering, tasks
from weir.workers.mail import message as mail_message
from weir.workers.mail.models import Email, RelayHold
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.mail.sending import leases, routes, runner, source
from weir.workers.mail.transports import relays
from weir.workers.mail.transports.base import Accepted, OutcomeUnknown, Refused
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

pytestmark = MARKS
GREETING = [b"220 mail.example\r\n", b"250 mail.example\r\n"]
OK = b"250 OK\r\n"


def ship_to(address: str, number: str = "T") -> Email:
    """Ship an order of this number to this address."""
    order = Order.objects.create(number=number, customer_email=address)
    shipping.ship(order.pk)
    return order.shipped_email


def test_an_outcome_that_is_written_again_late_is_not_taken_for_the_next_claims(
    mail: MailServer, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """The answer to its COMMIT was lost; meanwhile the same process has claimed the e-mail again, and transmits it."""
    email, write = ship("greylist-1"), leases.LEDGER._write
    lost: list[Outcome] = []

    def lose_the_first_answer(written: Email, outcome: Outcome) -> bool:
        result = write(written, outcome)
        if not lost:
            lost.append(outcome)
            redirect(email, "late-2500")
            time.sleep(2.0)  # as long as a connection that is gone may take to be noticed
            raise OperationalError("the connection is gone")
        return result

    monkeypatch.setattr(leases.LEDGER, "_write", lose_the_first_answer)
    eventually(lambda: runner.send_due() and state(email)[0] == EmailState.SENT, "the e-mail to be sent")
    assert lost[0].state == EmailState.PENDING
    assert accepted(mail, email) == 1


def test_a_begin_whose_answer_is_lost_is_undone(mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was transmitted, so it is tried again, at no attempt's cost."""
    email, begin = ship(), leases.begin
    lost: list[bool] = []

    def lose_the_first_answer(begun: Email, relay: str, key_lifetime: None) -> None:
        begin(begun, relay, key_lifetime)
        if not lost:
            lost.append(True)
            raise OperationalError("the connection is gone")

    monkeypatch.setattr(leases, "begin", lose_the_first_answer)
    runner.send_due()
    assert state(email) == (EmailState.PENDING, 0)
    assert not accepted(mail, email)
    Email.objects.update(next_attempt_at=email.created_at)
    runner.send_due()
    assert state(email) == (EmailState.SENT, 1)


def test_an_outcome_is_kept_while_postgres_only_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does for a moment in a failover."""
    email, write = ship(), leases.LEDGER._write
    tries: list[bool] = []

    def only_read_at_first(written: Email, outcome: Outcome) -> bool:
        tries.append(True)
        if len(tries) < 3:
            raise InternalError("cannot execute UPDATE in a read-only transaction")
        return write(written, outcome)

    monkeypatch.setattr(leases.LEDGER, "_write", only_read_at_first)
    monkeypatch.setattr(patience, "TRY_EVERY_S", 0.01)
    assert runner.send_due().sent == 1
    assert state(email) == (EmailState.SENT, 1)


@pytest.mark.parametrize("reply", [b"250 OK\0queued\r\n", b"550 5.6.0 no\0no\r\n", b"451 \xff\xfelater\r\n"])
def test_what_a_server_says_can_always_be_stored(settings: Settings, reply: bytes) -> None:
    """Even what PostgreSQL would not take; and the next e-mail is sent."""
    email, next_one = ship(), ship()
    talk = [*GREETING, OK, OK, b"354 Go ahead\r\n", reply]
    rset = [] if reply.startswith(b"2") else [OK]
    with scripted_server(settings, [*talk, *rset, OK, OK, b"354 Go ahead\r\n", OK, b"221 Bye\r\n"]):
        runner.send_due(limit=2)
    expected = {b"2": EmailState.SENT, b"5": EmailState.FAILED, b"4": EmailState.PENDING}[reply[:1]]
    assert state(email) == (expected, 1)
    assert "\N{REPLACEMENT CHARACTER}" in email.last_reply
    assert state(next_one) == (EmailState.SENT, 1)


@pytest.mark.usefixtures("mail")
def test_an_address_that_nobody_foresaw_blocks_no_other() -> None:
    """A letter that is ASCII in another case only, which the mail server does not take."""
    bad, good = ship_to("\u017fam@customers.example"), ship()
    runner.send_due()
    assert state(bad)[0] == EmailState.FAILED
    assert state(good) == (EmailState.SENT, 1)


@pytest.mark.parametrize("after_begin", [False, True])
def test_a_transport_that_raises_anything_ends_no_round(after_begin: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before begin the e-mail is tried again, and counted; after it, it is unknown; the next e-mail is sent."""
    emails = [ship(), ship()]
    submitted: list[str] = []

    class Broken(ConnectedTransport):
        def submit(self, written: mail_message.Message, begin: Any) -> Accepted:
            submitted.append(written.recipient)
            if len(submitted) == 1:
                if after_begin:
                    begin()
                raise ZeroDivisionError
            begin()
            return Accepted("250 OK")

    use(monkeypatch, Broken)
    runner.send_due(limit=2)
    assert state(emails[0]) == (EmailState.UNKNOWN if after_begin else EmailState.PENDING, 1)
    assert emails[0].phase == (Phase.BEGUN if after_begin else Phase.NOT_BEGUN)
    assert state(emails[1]) == (EmailState.SENT, 1)


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (Refused("", Phase.NOT_BEGUN, is_permanent=True), EmailState.FAILED),
        (OutcomeUnknown("", Phase.AFTER_DOT), EmailState.UNKNOWN),
    ],
)
def test_a_transport_that_gives_no_reason_blocks_no_other(
    error: Exception, becomes: EmailState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL would refuse a row without a reason, again in each round."""
    emails = [ship(), ship()]
    errors = [error]

    class Silent(ConnectedTransport):
        def submit(self, _written: mail_message.Message, begin: Any) -> Accepted:
            begin()
            if errors:
                raise errors.pop()
            return Accepted("")

    use(monkeypatch, Silent)
    runner.send_due()
    assert [state(email) for email in emails] == [(becomes, 1), (EmailState.SENT, 1)]
    assert {email.last_reply for email in emails} == {NOTHING_SAID}


def test_a_relay_that_loses_each_email_is_left_alone_before_all_are_unknown(mail: MailServer) -> None:
    """Such as one whose filter has died; operators see why the others wait, and one is tried from time to time."""
    emails = [ship("cut-accepted") for _ in range(20)]
    report = runner.send_due()
    assert (report.unknown, Email.objects.filter(state=EmailState.PENDING).count()) == (3, 17)
    assert "is left alone for a while" in report.stopped_because
    assert "It does not say what becomes of e-mails: " in RelayHold.objects.get().reason
    routes.forget_failures()
    for email in emails:
        redirect(email, "plain")
    assert runner.send_due().sent == 17
    assert {accepted(mail, email) for email in emails} == {1}


def test_a_recipient_for_whom_the_server_wants_a_login_blocks_no_other(settings: Settings) -> None:
    """The server refuses us, not the e-mail, so it does not fail; but it goes behind the others."""
    bad, good = ship(), ship()
    refusing = [*GREETING, OK, b"530 5.7.1 Log in to relay\r\n", b"221 Bye\r\n"]
    with scripted_server(settings, refusing, [*GREETING, OK, OK, b"354 Go ahead\r\n", OK, b"221 Bye\r\n"]):
        for _ in range(2):
            runner.send_due(limit=1)
    assert state(bad) == (EmailState.PENDING, 0)
    assert state(good) == (EmailState.SENT, 1)


def test_a_login_that_is_wanted_again_and_again_is_asked_for_ever_more_seldom(settings: Settings) -> None:
    """A connection to the server is not a success yet."""
    ship()
    with scripted_server(settings, [*GREETING, b"530 5.7.0 Authentication required\r\n"]) as heard:
        for _ in range(3):
            assert "530 5.7.0" in runner.send_due().stopped_because
            Email.objects.update(next_attempt_at=Now())
    assert len([line for line in heard if line.startswith(b"mail")]) == 1


def test_a_sender_that_is_no_good_fails_no_email(mail: MailServer, settings: Settings) -> None:
    """They wait until the setting is corrected."""
    email = ship()
    right, settings.DEFAULT_FROM_EMAIL = settings.DEFAULT_FROM_EMAIL, "the shop"
    assert "DEFAULT_FROM_EMAIL" in runner.send_due().stopped_because
    assert state(email) == (EmailState.PENDING, 0)
    settings.DEFAULT_FROM_EMAIL = right
    assert runner.send_due().sent == 1
    assert accepted(mail, email) == 1


@pytest.mark.usefixtures("mail")
@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_template_that_loses_the_database_is_tried_again(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is to blame: later, not never; the attempt counts, so that it cannot go on for ever."""
    email = unrendered(ship())

    def fail(_email: Email, _recipient: str, _content: kinds.Content) -> NoReturn:
        raise error("the connection is gone")

    monkeypatch.setattr(rendering, "_message", fail)
    runner.send_due()
    assert state(email) == (EmailState.PENDING, 1)


def test_what_goes_wrong_with_a_sender_is_raised_and_the_rest_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the error would be lost."""
    emails = [ship(), ship()]

    def fail(_email: Email, _outcome: Outcome) -> NoReturn:
        raise LookupError("a bug")

    monkeypatch.setattr(leases, "record", fail)
    with pytest.raises(LookupError, match="a bug"):
        runner.send_due()
    assert [state(email)[0] for email in emails] == [EmailState.SENDING, EmailState.PENDING]


def test_a_template_that_takes_long_delays_no_other_by_a_second(
    mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like an e-mail that the mail server hangs on."""
    slow, write = unrendered(ship()), rendering._message

    def write_slowly(email: Email, recipient: str, content: kinds.Content) -> EmailMessage:
        if email.message_id == slow.message_id:
            time.sleep(2.5)
        return write(email, recipient, content)

    monkeypatch.setattr(rendering, "_message", write_slowly)
    others = [ship() for _ in range(3)]
    shipped_at = time.time_ns()
    runner.send_due()
    accepted_at = {event.message_id: event.at_ns for event in mail.events() if event.event == "accepted"}
    assert all(accepted_at[email.message_id] - shipped_at < 1e9 for email in others)
    assert state(slow) == (EmailState.SENT, 1)


@pytest.mark.usefixtures("mail")
def test_a_task_that_runs_out_of_time_leaves_a_message_for_the_next(
    messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a worker can stop when it is told to, and the rest does not wait for beat."""
    ship()
    messages.clear()
    tasks.send_emails()
    assert messages == []
    ship()
    messages.clear()
    monkeypatch.setattr(tasks, "TURN_S", 0.0)
    tasks.send_emails()
    assert messages == [(task_names.SEND_EMAILS, ())]


@contextmanager
def few_connections(most: int) -> Iterator[tuple[int, list[int]]]:
    """Run a mail server that takes this many connections at a time at most; yields port, and e-mails of each.

    It accepts one e-mail, and the others when all of these connections are there.
    """
    free, all_there = threading.Semaphore(most), threading.Event()
    served: list[int] = []

    def serve(peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as commands:
            peer.sendall(b"220 mail.example\r\n")
            is_content, number = False, len(served)
            served.append(0)
            if len(served) == most:
                all_there.set()
            for line in commands:
                if is_content:
                    is_content = line != b".\r\n"
                    if not is_content and any(served):
                        all_there.wait(20)
                    reply = b"" if is_content else OK
                    served[number] += not is_content
                else:
                    is_content = line.lower().startswith(b"data")
                    reply = b"354 Go ahead\r\n" if is_content else OK
                peer.sendall(reply)
        free.release()

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            if free.acquire(blocking=False):
                threading.Thread(target=serve, args=(peer,), daemon=True).start()
            else:
                peer.sendall(b"421 Too many connections\r\n")
                peer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], served
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("most", [1, 2])
def test_many_emails_go_over_two_connections_or_one_if_the_server_wants(
    most: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second connection is for speed, and is not needed."""
    monkeypatch.setattr(source, "BATCH", 10)
    with few_connections(most) as (settings.EMAIL_PORT, served):
        emails = [ship() for _ in range(60)]
        report = runner.send_due()
    assert len([number for number in served if number]) == most
    assert (report.sent, report.given_back, report.stopped_because) == (len(emails), 0, "")
    assert routes.open_for_s(relays.relays()) == 0


def test_where_the_only_connection_hangs_the_others_go_back_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """Other processes may send them; none of them waits for the e-mail that hangs."""
    email, *others = [ship() for _ in range(4)]
    begin = leases.begin

    def begin_slowly(begun: Email, relay: str, key_lifetime: None) -> None:
        if begun.pk == email.pk:
            time.sleep(2.5)
        begin(begun, relay, key_lifetime)

    monkeypatch.setattr(leases, "begin", begin_slowly)
    with few_connections(1) as (settings.EMAIL_PORT, _), sending_meanwhile():
        eventually(
            lambda: (
                {state(other)[0] for other in others} == {EmailState.PENDING} and state(email)[0] == EmailState.CLAIMED
            ),
            "the others to go back while one hangs",
            seconds=2.0,
        )
    assert state(email) == (EmailState.SENT, 1)
