"""SIGKILL at every step, and a hostile mail server: no order's e-mail is accepted twice, by the server's own list."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from benchmarks.once import published as published_shipped_email
from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from tests.acceptance.mail import mail_processes as roles
from tests.acceptance.processes import Processes
from tests.integration.conftest import database_now
from tests.waiting import wait_for
from weir.workers.mail import outbox
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState, Phase
from weir.workers.orders.models import SHIPPED, Order

AT_LENGTH = "WEIR_FAULTS" in os.environ
KILLS = 200 if AT_LENGTH else 10  # at random
KILLS_A_STEP = 25 if AT_LENGTH else 1
ORDERS = 2_000 if AT_LENGTH else 120
MORTALS = 4 if AT_LENGTH else 2  # workers besides the one that dies at a step, which waits until it has got an e-mail
WORKERS = 4
FREEZES = 12 if AT_LENGTH else 1
CUTS_A_FREEZE = 4
REPLY_S = 6.0 if AT_LENGTH else 4.0
LEASE_S = 6.0 if AT_LENGTH else 3.0
FROZEN_S = LEASE_S + 2.0  # on the average
HOUR, SOON = timedelta(hours=1), timedelta(seconds=2)
SLACK = timedelta(seconds=1)  # what has begun in time arrives within it
MAIL_SETTINGS = {
    "EMAIL_TIMEOUT": 1.5,
    "WEIR_MAIL_COMMAND_TIMEOUT": 1.5,
    "WEIR_MAIL_REPLY_TIMEOUT": REPLY_S,
    "WEIR_MAIL_LEASE": LEASE_S,
    "WEIR_MAIL_UNKNOWN_AFTER": REPLY_S + 4.0,
}


@pytest.fixture
def chance() -> random.Random:
    return random.Random(os.environ.get("WEIR_FAULTS_SEED", "weir"))  # noqa: S311  who is killed, and when


@pytest.fixture
def server(tmp_path: Path, settings: Settings) -> Iterator[MailServer]:
    """A mail server that the settings name, with short times."""
    with mail_server.running(tmp_path) as running:
        settings.EMAIL_BACKEND = "weir.workers.mail.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = mail_server.HOST, running.port
        for name, value in MAIL_SETTINGS.items():
            setattr(settings, name, value)
        yield running


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path, server: MailServer) -> Iterator[Processes]:  # noqa: ARG001  must come first
    made = Processes(tmp_path, roles.__name__, "EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", *MAIL_SETTINGS)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.faults
def test_whoever_is_killed_no_email_is_accepted_twice_and_each_unknown_is_explained(
    processes: Processes, server: MailServer, chance: random.Random
) -> None:
    """Workers are killed at random and at each step; the server cuts, stalls, refuses; judged by its own list."""
    clerks = [processes.start(roles.ship_orders, clerk, processes.stop) for clerk in range(2)]
    workers = [processes.start(roles.keep_sending, processes.stop) for _ in range(MORTALS)]
    killed: dict[int | None, str] = {}  # process id -> the step
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.1))  # chance decides when
        worker = workers.pop(0)
        processes.kill(worker)
        killed[worker.pid] = "at random"
        workers.append(processes.start(roles.keep_sending, processes.stop))
    for step in list(roles.STEPS) * KILLS_A_STEP:
        worker = processes.start(roles.keep_sending, processes.stop, step)
        processes.gone(worker)
        killed[worker.pid] = step
    wait_for(lambda: Email.objects.count() >= ORDERS, 300, f"{ORDERS} orders")
    unknown = judge(processes, clerks, server)
    print(f"killed: {dict(Counter(killed.values()))}")
    explain_unknown(unknown, server, killed)


@pytest.mark.faults
def test_workers_that_lose_postgres_or_are_frozen_send_nothing_twice(
    processes: Processes, server: MailServer, chance: random.Random
) -> None:
    """Connections to PostgreSQL are cut at any moment; a worker stands still for longer than its lease, and goes on."""
    clerks = [
        processes.start(roles.ship_orders, clerk, processes.stop, tolerated=roles.LOST_POSTGRES) for clerk in range(2)
    ]
    workers = [
        processes.start(roles.keep_sending, processes.stop, tolerated=roles.LOST_POSTGRES) for _ in range(WORKERS)
    ]
    for number in range(FREEZES):
        frozen = psutil.Process(workers[number % WORKERS].pid)
        frozen.suspend()
        for _ in range(CUTS_A_FREEZE):
            time.sleep(chance.uniform(0.0, 2 * FROZEN_S / CUTS_A_FREEZE))  # chance decides when
            cut_connections()
        frozen.resume()
    print(f"\nfrozen: {FREEZES} workers, connections cut: {FREEZES * CUTS_A_FREEZE} times")
    judge(processes, clerks, server)


def test_after_an_outage_nothing_is_transmitted_whose_time_is_over(processes: Processes, server: MailServer) -> None:
    """A mailer stands still where it would begin, codes expire meanwhile, and then all mailers come back together."""
    frozen_one = queue("frozen", HOUR)
    frozen = processes.start(roles.keep_sending_but_stand_still, processes.stop)
    wait_for(lambda: psutil.Process(frozen.pid).status() == psutil.STATUS_STOPPED, 20, "it to stand still")
    late = [frozen_one, *(queue(f"late-{number}", SOON) for number in range(30))]
    in_time = [queue(f"in time-{number}", HOUR) for number in range(30)]
    soon = max(email.expires_at for email in late[1:] if email.expires_at)
    Email.objects.filter(pk=frozen_one.pk).update(expires_at=soon)
    wait_for(lambda: database_now() > soon + SLACK, 20, "the time of all of them to be over")
    for role in (roles.keep_sending, roles.keep_sending, roles.keep_expiring):
        processes.start(role, processes.stop)
    psutil.Process(frozen.pid).resume()
    wait_for(lambda: not unfinished(), 60, "every e-mail to end")
    processes.finish()
    ends = {email.message_id: email.expires_at for email in Email.objects.all() if email.expires_at}
    came = [event for event in server.events() if event.event == mail_server.ACCEPTED]
    assert [event for event in came if event.at_ns > (ends[event.message_id] + SLACK).timestamp() * 1e9] == []
    assert Counter(event.message_id for event in came) == Counter(email.message_id for email in in_time)
    assert set(Email.objects.filter(state=EmailState.EXPIRED)) == set(late)


def queue(key: str, life: timedelta) -> Email:
    """Queue an e-mail that expires after this time."""
    order = Order.objects.create(number=key, customer_email=f"plain.{key.replace(' ', '-')}@customers.example")
    to, expires_at = order.customer_email, timezone.now() + life
    return outbox.send_once(SHIPPED, key, to=to, context={"order_id": order.pk}, expires_at=expires_at)


def customers() -> dict[str, str]:
    """Return the addresses of the orders' customers, by the keys of their e-mails."""
    return {str(order_id): address for order_id, address in Order.objects.values_list("pk", "customer_email")}


def cut_connections() -> None:
    """End all connections to the database but ours."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def judge(processes: Processes, clerks: list[ForkServerProcess], server: MailServer) -> list[Email]:
    """Wait for the end of every e-mail, and fail if one was accepted twice or is not what its state says.

    Returns the unknown ones.
    """
    for clerk in clerks:
        processes.kill(clerk)
    wait_for(lambda: not unfinished(), 120, "every e-mail to end")
    processes.finish()
    accepted = server.received()
    emails = list(Email.objects.all())
    print(f"\n{len(emails)} orders: {dict(Counter(email.state for email in emails))}")
    assert max(accepted.values()) == 1
    addresses = customers()
    for email in emails:
        expected = {EmailState.SENT: {1}, EmailState.FAILED: {0}, EmailState.UNKNOWN: {0, 1}}[EmailState(email.state)]
        assert accepted[email.message_id] in expected, (email, email.last_reply)
        assert email.state != EmailState.FAILED or addresses[email.key].startswith("refuse"), email.last_reply
    return [email for email in emails if email.state == EmailState.UNKNOWN]


@pytest.mark.faults
def test_the_published_pattern_sends_twice_where_its_worker_is_killed(
    processes: Processes, server: MailServer, chance: random.Random
) -> None:
    """The contrast, in the same harness: what was accepted before the COMMIT is sent again."""
    published_shipped_email.create_table()
    addresses = roles.addresses(chance, 60 + 4 * KILLS_A_STEP, "published")
    published_shipped_email.PublishedShippedEmail().place(addresses)
    steps = roles.PUBLISHED_STEPS * KILLS_A_STEP
    for step in steps:
        processes.gone(processes.start(roles.keep_sending_as_published, processes.stop, step))
    for _ in range(2):
        processes.start(roles.keep_sending_as_published, processes.stop)
    ordinary = {address for address in addresses if address.startswith("plain")}
    wait_for(lambda: ordinary <= came(server).keys(), 60, "the e-mails that nothing hinders")
    processes.finish()

    again = [number - 1 for number in came(server).values() if number > 1]
    print(f"\nthe published pattern: killed {len(steps)} times; {sum(again)} copies too many, of {len(again)} e-mails")
    assert sum(again) >= KILLS_A_STEP


def came(server: MailServer) -> Counter[str]:
    """Return how often each address got an e-mail."""
    return Counter(event.recipient for event in server.events() if event.event == mail_server.ACCEPTED)


def unfinished() -> bool:
    """Return whether an e-mail will still change by itself."""
    return Email.objects.filter(state__in=(EmailState.PENDING, EmailState.CLAIMED, EmailState.SENDING)).exists()


def explain_unknown(unknown: list[Email], server: MailServer, killed: dict[int | None, str]) -> None:
    """Fail unless each was cut off by the server after the dot, or begun by a worker that was killed, one by each."""
    cut = {event.recipient for event in server.events() if event.event.startswith("cut")}
    begun_by: Counter[int] = Counter()
    addresses = customers()
    for email in unknown:
        if email.phase == Phase.AFTER_DOT:
            assert addresses[email.key] in cut
        else:
            begun_by[int(email.claimed_by.rpartition(":")[2])] += 1
    print(f"unknown: {len(unknown) - begun_by.total()} were cut off, {begun_by.total()} begun by who was killed")
    assert begun_by.keys() <= killed.keys()
    assert not [pid for pid in begun_by if roles.STEPS.get(killed[pid]) is False]
    assert {pid for pid, step in killed.items() if roles.STEPS.get(step)} <= begun_by.keys()
