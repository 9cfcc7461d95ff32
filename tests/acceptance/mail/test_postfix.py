"""A real Postfix is killed, and so are the mailers: nothing is accepted twice, and its log settles all."""

import os
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db.models import Max
from pytest_django import Settings

from tests import postfix
from tests.acceptance.mail import mail_processes as roles
from tests.acceptance.mail.test_mail_kills import MAIL_SETTINGS, unfinished
from tests.acceptance.processes import Processes
from tests.postfix import Postfix
from tests.waiting import wait_for
from weir.workers.mail.evidence import settling
from weir.workers.mail.evidence.settling import EvidenceReport
from weir.workers.mail.evidence.verdicts import LogOutcome, Vouched
from weir.workers.mail.management.evidence import local_zone
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order

AT_LENGTH = "WEIR_FAULTS" in os.environ
NAMED = ("EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", "DEFAULT_FROM_EMAIL")  # settings that processes are told
ORDERS = 2_500 if AT_LENGTH else 100
KILLS = 120 if AT_LENGTH else 4  # of mailers, at random
KILLS_A_STEP = 12 if AT_LENGTH else 1
MAILERS_A_POSTFIX = 5  # kills of mailers for each kill of Postfix
WORKERS = 4 if AT_LENGTH else 2
CLOCK_ERROR = timedelta(seconds=2)  # one clock, but the log has whole seconds
STEPS = ("after begin", "before dot", "after dot", "before record")
pytestmark = pytest.mark.skipif(bool(postfix.why_not()), reason=postfix.why_not())


@pytest.fixture
def server(settings: Settings) -> Iterator[Postfix]:
    """A Postfix that the settings name, with short times. Its queue ids are never used again."""
    with postfix.running("enable_long_queue_ids = yes\n") as running:
        settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = postfix.HOST, running.port
        for name, value in MAIL_SETTINGS.items():
            setattr(settings, name, value)
        yield running


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path, server: Postfix) -> Iterator[Processes]:  # noqa: ARG001  must come first
    made = Processes(tmp_path, roles.__name__, *NAMED, *MAIL_SETTINGS)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_postfix_and_mailers_are_killed_nothing_is_accepted_twice_and_the_log_settles_all_that_is_unknown(
    processes: Processes, server: Postfix
) -> None:
    """Each verdict agrees with the mailbox; what the log proves not accepted is sent again, and comes once."""
    begin = datetime.now(UTC) - CLOCK_ERROR
    send_and_kill(processes, server)
    server.wait_until_queue_is_empty()
    wait_until_log_goes_on(server)
    assert accepted_more_than_once(server) == []

    report = judge(server, begin)
    print(f"\nverdicts: {dict(report.counts())}; {report.logs.lines} lines of the log")
    came = {message_id for message_id, _ in server.received()}
    assert report.counts()[LogOutcome.STILL_UNKNOWN] == 0, [each.verdict.why for each in report.judged]
    wrong = [
        each for each in report.judged if (each.verdict.outcome == LogOutcome.ACCEPTED) != (each.message_id in came)
    ]
    assert wrong == []
    assert report.counts().total() >= len(STEPS) * KILLS_A_STEP

    apply(server, begin)
    processes.start(roles.keep_sending, processes.stop)
    wait_for(lambda: not unfinished(), 120, "what is sent again")
    processes.finish()
    server.wait_until_queue_is_empty()
    assert set(Email.objects.values_list("state", flat=True)) == {EmailState.SENT}
    assert accepted_more_than_once(server) == []
    assert {message_id for message_id, _ in server.received()} == set(
        Email.objects.values_list("message_id", flat=True)
    )


def test_what_postfix_returns_is_bounced(processes: Processes, server: Postfix, settings: Settings) -> None:
    """Accepted for a host that does not exist, returned to the sender's Maildir, read from there."""
    settings.DEFAULT_FROM_EMAIL = "Shop <shop@example.com>"
    orders = [
        Order.objects.create(number=str(number), customer_email=address)
        for number, address in enumerate(("ada@nowhere.invalid", "bob@customers.example"))
    ]
    for order in orders:
        shipping.ship(order.pk)
    processes.start(roles.keep_sending, processes.stop)
    wait_for(lambda: len(list(server.mailbox.glob("new/*"))) == 2, 30, "one e-mail, and one report")
    wait_for(lambda: not unfinished(), 30, "what the mailer notes")
    processes.finish()
    report = handle_reports(server.mailbox)
    ended = {email.recipient: email for email in Email.objects.all()}
    assert ended["ada@nowhere.invalid"].state == EmailState.BOUNCED, report
    assert ended["ada@nowhere.invalid"].last_reply.startswith("5.4.4 unable to look up host")
    assert ended["bob@customers.example"].state == EmailState.SENT
    assert not list(server.mailbox.glob("new/*"))


def handle_reports(mailbox: Path) -> str:
    """Handle the delivery reports in a Maildir; return what the command prints."""
    output = StringIO()
    call_command("emails", "bounces", "--maildir", str(mailbox), stdout=output)
    return output.getvalue()


def send_and_kill(processes: Processes, server: Postfix) -> None:
    """Ship orders, while mailers and Postfix are killed, until each e-mail has ended or is unknown."""
    chance = random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when
    clerks = [processes.start(roles.ship_orders, clerk, processes.stop) for clerk in range(2)]
    workers = [processes.start(roles.keep_sending, processes.stop) for _ in range(WORKERS)]
    for number in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.2))  # chance decides when
        processes.kill(workers.pop(0))
        workers.append(processes.start(roles.keep_sending, processes.stop))
        if number % MAILERS_A_POSTFIX == 1:
            server.kill()
            server.start()
    wait_for(lambda: Email.objects.filter(state=EmailState.SENT).count() > KILLS, 60, "e-mails that go out again")
    for step in STEPS * KILLS_A_STEP:
        processes.gone(processes.start(roles.keep_sending, processes.stop, step))
    wait_for(lambda: Email.objects.count() >= ORDERS, 300, f"{ORDERS} orders")
    for clerk in clerks:
        processes.kill(clerk)
    wait_for(lambda: not unfinished(), 120, "every e-mail to end")
    processes.finish()
    print(f"\n{Email.objects.count()} orders: {dict(Counter(Email.objects.values_list('state', flat=True)))}")
    print(f"killed: {KILLS + len(STEPS) * KILLS_A_STEP} mailers, Postfix {(KILLS + 3) // MAILERS_A_POSTFIX} times")


def wait_until_log_goes_on(server: Postfix) -> None:
    """Wait until each attempt has ended for certain, and make Postfix log a line after that."""
    last = Email.objects.filter(state=EmailState.UNKNOWN).aggregate(Max("sending_since"))["sending_since__max"]
    end = last + timedelta(seconds=MAIL_SETTINGS["WEIR_MAIL_UNKNOWN_AFTER"]) + 2 * CLOCK_ERROR
    wait_for(lambda: datetime.now(UTC) > end, 60, "the end of all attempts")
    lines = server.log.read_bytes().count(b"\n")
    socket.create_connection((postfix.HOST, server.port)).close()
    wait_for(lambda: server.log.read_bytes().count(b"\n") > lines, 10, "a line of the log")


def accepted_more_than_once(server: Postfix) -> list[str]:
    """Return the Message-IDs with more than one acceptance; Postfix's own second deliveries are only printed."""
    received = server.received()
    if copies := received.total() - len(received):
        print(f"Postfix, killed, delivered {copies} of what it had accepted once more")
    acceptances = Counter(message_id for message_id, _ in received)
    return [message_id for message_id, number in acceptances.items() if number > 1]


def judge(server: Postfix, begin: datetime) -> EvidenceReport:
    """Return what the log proves. The test keeps it, so that it survives Postfix."""
    vouched = Vouched(
        complete_from=begin,
        complete_until=datetime.now(UTC),
        clock_error=CLOCK_ERROR,
        queue_empty=True,
        survived_crashes=True,
    )
    return settling.settle([str(server.log)], vouched, settling.Given(local_zone()))


def apply(server: Postfix, begin: datetime) -> None:
    """Settle the unknown e-mails by the log, as an operator does."""
    time_until = datetime.now(UTC).isoformat()
    options = ["--complete-from", begin.isoformat(), "--complete-until", time_until, "--queue-empty", "--apply"]
    options += ["--log-survived-crashes", "--clock-error", f"{CLOCK_ERROR.total_seconds():g}"]
    call_command("emails", "evidence", *options, str(server.log), stdout=StringIO())
