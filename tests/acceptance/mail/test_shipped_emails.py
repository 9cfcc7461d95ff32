"""From `ship` to the mail server, through a real broker, beat and mailer."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from demo.fakes import mail_server
from demo.fakes.mail_server import MailServer
from project.celery import app
from tests.acceptance.conftest import Cluster
from tests.integration.conftest import database_now
from tests.waiting import wait_for
from weir.workers import broker_link
from weir.workers.mail.models import Email
from weir.workers.mail.phases import EmailState
from weir.workers.orders import shipping
from weir.workers.orders.models import Order
from weir.workers.processes.models import Process


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """A mail server that the cluster's processes know, and we publish to the cluster's broker."""
    with mail_server.running(tmp_path) as running:
        cluster.environment |= {
            "EMAIL_HOST": mail_server.HOST,
            "EMAIL_PORT": str(running.port),
            "EMAIL_TIMEOUT": "2",
            "WEIR_MAIL_COMMAND_TIMEOUT": "2",
            "WEIR_MAIL_LEASE": "8",
            "WEIR_MAIL_REPLY_TIMEOUT": "3",
            "WEIR_MAIL_UNKNOWN_AFTER": "8",
        }
        broker = app.connection_for_write(
            cluster.environment["REDIS_URL"].replace("unix:", "redis+socket:"),
            transport_options={**broker_link.OPTIONS, "max_retries": 0},
        )
        monkeypatch.setattr(broker_link, "_connection", lambda: broker)
        broker_link.forget_outage()
        yield running
        broker_link.forget_outage()


def ship(count: int, word: str = "plain") -> None:
    """Place and ship this many orders."""
    for _ in range(count):
        number = Order.objects.count()
        order = Order.objects.create(number=str(number), customer_email=f"{word}.{number}@customers.example")
        shipping.ship(order.pk)


def states() -> set[str]:
    """Return the states that e-mails are in."""
    return set(Email.objects.values_list("state", flat=True))


def rests(cluster: Cluster) -> bool:
    """Return whether the mailer has nothing to do: no message is there, and then a turn says that no task runs.

    Otherwise it may still be in its round, in which it would meet whatever is shipped.
    """
    with redis.Redis.from_url(cluster.environment["REDIS_URL"]) as broker:

        def has_messages() -> bool:
            return bool(broker.llen("weir.mail") or broker.hlen("unacked"))

        if has_messages():
            return False
        turned = Process.objects.filter(kind="mailer", turned_at__gt=database_now())
        wait_for(turned.exists, 10, "a turn of the mailer")
        return turned.get().holds == 0 and not has_messages()


def test_shipped_emails_go_out_at_once_and_without_messages_a_tick_later(cluster: Cluster, server: MailServer) -> None:
    """A message from ship needs no beat; if messages are lost, beat is enough."""
    cluster.start("mailer", "mailer")
    ship(20)
    wait_for(lambda: states() == {EmailState.SENT}, 10, "the e-mails, without beat")
    wait_for(lambda: rests(cluster), 20, "the mailer to have done all that it was told")
    cluster.stop_broker()
    ship(5)
    assert states() == {EmailState.SENT, EmailState.PENDING}
    cluster.start_broker()
    cluster.start("beat", "beat")
    wait_for(lambda: states() == {EmailState.SENT}, 40, "the e-mails of which nobody was told")
    assert set(server.received().values()) == {1}
    assert server.received().total() == 25


def test_who_kills_a_mailer_in_the_middle_gets_no_email_twice(cluster: Cluster, server: MailServer) -> None:
    """A child of the pool is killed while the server has not answered: its e-mail ends unknown, all others sent."""
    cluster.start("beat", "beat")
    cluster.start("mailer", "mailer")
    ship(1, "late-2500")
    wait_for(server.received, 20, "the mail server to accept it, and to think")
    worker = Email.objects.get().claimed_by
    child = psutil.Process(int(worker.rpartition(":")[2]))
    assert child.ppid() == cluster.processes["mailer"].pid
    child.send_signal(signal.SIGKILL)
    ship(20)
    wait_for(
        lambda: states() == {EmailState.SENT, EmailState.UNKNOWN}, 40, "all others to be sent, and one to be unknown"
    )
    (unknown,) = Email.objects.unknown()
    assert unknown.claimed_by == worker
    assert set(server.received().values()) == {1}
    assert server.received()[unknown.message_id] == 1
