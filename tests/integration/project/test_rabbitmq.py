"""RabbitMQ as the broker: it is asked within the same time as Redis, also frozen, and what is sent arrives."""

import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests import rabbitmqs
from tests.integration.notifications.tls_front import fronts
from tests.integration.project.sending_to import ASKED_WITHIN_S, sending_to
from tests.rabbitmqs import RabbitMQ
from weir.workers import broker_link, publish, task_names

pytestmark = pytest.mark.skipif(not (rabbitmqs.SERVER and rabbitmqs.EPMD), reason=rabbitmqs.MISSING)
AWAY = "127.0.0.2"  # where nothing listens


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with rabbitmqs.running(tmp_path_factory.mktemp("rabbitmq") / "node") as made:
        yield made


@pytest.fixture
def queue(broker: RabbitMQ, request: pytest.FixtureRequest) -> Iterator[str]:
    """Make this process send its messages there, and return the name of a queue that only this test uses."""
    with sending_to(broker.url, request.node.name):
        yield request.node.name


def took_s(began: float) -> float:
    return time.monotonic() - began


def test_messages_are_sent_and_counted(queue: str) -> None:
    """As with Redis."""
    for count in range(3):
        assert broker_link.waiting_in(queue) == count
        assert publish.publish(task_names.HEARTBEAT, queue)


def test_a_frozen_server_is_not_waited_for(broker: RabbitMQ, queue: str) -> None:
    """Nobody waits for longer than 1.5 s, and no late answer is taken for that to another question."""
    other = f"{queue}-other"
    broker_link.app().amqp.queues.add(other)
    assert broker_link.waiting_in(other) == 0
    assert publish.publish(task_names.HEARTBEAT, queue)
    with broker.frozen():
        for _ in range(3):
            broker_link.forget_outage()
            began = time.monotonic()
            with pytest.raises(broker_link.BrokerUnreachable, match=r"timed out|not answer in time"):
                broker_link.waiting_in(other)
            assert took_s(began) < ASKED_WITHIN_S
            broker_link.forget_outage()
            began = time.monotonic()
            assert not publish.publish(task_names.HEARTBEAT, queue)
            assert took_s(began) < ASKED_WITHIN_S
    broker_link.forget_outage()
    assert broker_link.waiting_in(queue) == 1
    assert broker_link.waiting_in(other) == 0


def test_tls_is_verified(broker: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority, and that the certificate is for the host of the URL."""
    with fronts(tmp_path) as tls:
        port = tls.start(broker.port, only_tls=True)
        urls = [f"amqps://guest:guest@{host}:{port}//" for host in ("127.0.0.1", "localhost.localdomain")]
        with (
            sending_to(urls[0], "tls"),
            pytest.raises(broker_link.BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            broker_link.waiting_in("tls")
        monkeypatch.setenv("SSL_CERT_FILE", str(tls.certificate))
        with sending_to(urls[0], "tls"):
            assert broker_link.waiting_in("tls") == 0
        monkeypatch.setattr(socket, "getaddrinfo", partial(resolved, port))
        with sending_to(urls[1], "tls"), pytest.raises(broker_link.BrokerUnreachable, match="not valid for"):
            broker_link.waiting_in("tls")


def test_each_of_several_hosts_is_verified_by_its_own_name(
    broker: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one's certificate by the second one's name, where the first is away."""
    with fronts(tmp_path) as tls:
        monkeypatch.setenv("SSL_CERT_FILE", str(tls.certificate))
        port, other_port = (tls.start(broker.port, only_tls=True) for _ in range(2))  # a pool is kept by its URL
        away = f"amqps://guest:guest@{AWAY}"
        with sending_to(f"{away}:{port}//;amqps://guest:guest@127.0.0.1:{port}//", "tls"):
            assert broker_link.waiting_in("tls") == 0
        monkeypatch.setattr(socket, "getaddrinfo", partial(resolved, other_port))
        with (
            sending_to(f"{away}:{other_port}//;amqps://guest:guest@localhost.localdomain:{other_port}//", "tls"),
            pytest.raises(broker_link.BrokerUnreachable, match="not valid for 'localhost"),
        ):
            broker_link.waiting_in("tls")


def resolved(port: int, host: str, *_: object) -> list[tuple[object, ...]]:
    """Resolve each name to the loopback address, and leave AWAY as it is."""
    address = host if host == AWAY else "127.0.0.1"
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]


def test_a_server_that_was_killed_is_found_again(broker: RabbitMQ, queue: str) -> None:
    """Messages have outlived it: queues are durable, and each message was confirmed."""
    assert publish.publish(task_names.HEARTBEAT, queue)
    broker.kill()
    began = time.monotonic()
    assert not publish.publish(task_names.HEARTBEAT, queue)
    assert took_s(began) < ASKED_WITHIN_S
    broker.start()
    broker_link.forget_outage()
    assert broker_link.waiting_in(queue) == 1
    assert publish.publish(task_names.HEARTBEAT, queue)
