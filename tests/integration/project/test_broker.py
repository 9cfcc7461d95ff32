"""A worker whose broker goes away while messages wait in it goes on afterwards."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from project.celery import app
from tests.integration.ports import opened_port

pytestmark = pytest.mark.usefixtures("valkey")

QUEUE = "test_broker"


@pytest.fixture
def connection() -> Iterator[Any]:
    """Return a connection to the broker, as a worker has it."""
    with app.connection_for_read() as made:
        yield made


def received(connection: Any) -> Any:
    """Let a message wait in this process, not acknowledged; returns its channel."""
    channel = connection.default_channel
    queue = connection.SimpleQueue(QUEUE, channel=channel)
    queue.clear()
    queue.put({"waits": True})
    assert queue.get(timeout=5) is not None
    return channel


def test_a_connection_that_is_gone_is_closed_without_an_error(connection: Any) -> None:
    """As Celery does it where the broker went away: first the connection, then what used it."""
    channel = received(connection)
    channel.connection.client = None
    channel.close()
    channel.close()


def test_a_message_that_waits_is_given_back_where_the_connection_stands(connection: Any) -> None:
    """A worker that ends in order leaves its messages to others at once."""
    received(connection).close()
    with app.connection_for_read() as other:
        queue = other.SimpleQueue(QUEUE)
        message = queue.get(timeout=5)
        assert message.payload == {"waits": True}
        message.ack()


def test_a_broker_host_that_says_nothing_is_given_up(own_broker: Any) -> None:
    """The kernel ends a connection after eight seconds, whether something was sent or is waited for."""
    own_broker.config_set("bind", "127.0.0.1")
    port = opened_port(own_broker)
    with app.connection_for_read(f"redis://127.0.0.1:{port}/0") as made:
        channel: Any = made.default_channel
        link = channel.client.connection_pool.make_connection()
        link.connect()
        tcp = socket.IPPROTO_TCP
        assert link._sock.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 5_000
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [link._sock.getsockopt(tcp, name) for name in names] == [3, 1, 2]
