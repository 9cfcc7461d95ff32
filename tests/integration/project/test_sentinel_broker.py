"""A broker that Sentinels know: those of them that say nothing, or are gone, are not waited for."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.project.sending_to import sending_to
from tests.integration.project.test_broker import closed_port
from tests.valkeys import valkeys
from workers import broker_link, publish, task_names

ASKED_WITHIN_S = 1.5


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[str]:
    """Provide the place of a Sentinel that knows a primary, of the name `orders`."""
    with valkeys(tmp_path / "valkeys") as servers:
        primary = servers.start()
        yield servers.start("--sentinel", config=f"sentinel monitor orders 127.0.0.1 {primary.port} 1").place


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Provide the places of two servers that take connections, and say nothing."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        yield [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]


def first_publish_s(redis_url: str) -> float:
    """Have a message sent by a new connection; return how long that took."""
    with sending_to("", "sentinels", redis_url=redis_url):
        began = time.monotonic()
        assert publish.publish(task_names.HEARTBEAT, "sentinels")
        took = time.monotonic() - began
        assert broker_link.waiting_in("sentinels") == 1
    return took


def test_sentinels_that_say_nothing_are_asked_once(sentinel: str, silent: list[str]) -> None:
    """Web code waits a second for one, where redis-py would try it four times, each time for longer."""
    assert first_publish_s(f"redis+sentinel://{silent[0]},{sentinel}/orders") < ASKED_WITHIN_S


def test_sentinels_that_are_gone_are_not_waited_for(sentinel: str) -> None:
    """They refuse connections."""
    gone = [f"127.0.0.1:{closed_port()}" for _ in range(2)]
    assert first_publish_s(f"redis+sentinel://{','.join([*gone, sentinel])}/orders") < ASKED_WITHIN_S


def test_where_no_sentinel_answers_nobody_waits_for_longer(silent: list[str]) -> None:
    """They are asked once each, all together: they are no brokers of which the next is tried."""
    with sending_to("", "sentinels", redis_url=f"redis+sentinel://{','.join(silent)}/orders"):
        began = time.monotonic()
        assert not publish.publish(task_names.HEARTBEAT, "sentinels")
        assert time.monotonic() - began < ASKED_WITHIN_S
