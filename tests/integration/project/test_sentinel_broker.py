"""The broker is found by Sentinels: one that is silent holds a message up for a second, one that is gone does not."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.ports import closed_port
from tests.integration.project.sending_to import ASKED_WITHIN_S, sending_to
from tests.valkeys import valkeys
from tests.waiting import in_time
from weir.workers import broker_link, publish, task_names


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[str]:
    """Provide the place of a Sentinel that knows a primary, of the name `orders`."""
    with valkeys(tmp_path / "valkeys") as servers:
        primary = servers.start()
        yield servers.start("--sentinel", config=f"sentinel monitor orders 127.0.0.1 {primary.port} 1").place


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Provide the places of five servers that take connections, and say nothing."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(5)]
        yield [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]


def first_publish_s(redis_url: str) -> float:
    """Send a message by a new connection; return how long that took."""
    with sending_to("", "sentinels", redis_url=redis_url):
        began = time.monotonic()
        assert publish.publish(task_names.HEARTBEAT, "sentinels")
        took = time.monotonic() - began
        assert broker_link.waiting_in("sentinels") == 1
    return took


def test_a_silent_sentinel_costs_the_first_message_a_second(sentinel: str, silent: list[str]) -> None:
    """By redis-py's defaults each is tried four times, and web code would wait for half a minute."""
    took_s = first_publish_s(f"redis+sentinel://{silent[0]},{sentinel}/orders")
    in_time(took_s < ASKED_WITHIN_S, "the message")


def test_a_sentinel_that_is_gone_costs_nothing(sentinel: str) -> None:
    """It refuses the connection, and the next one is asked at once."""
    gone = [f"127.0.0.1:{closed_port()}" for _ in range(2)]
    in_time(first_publish_s(f"redis+sentinel://{','.join([*gone, sentinel])}/orders") < 0.5, "the message")


@pytest.mark.parametrize("count", [2, 3, 5])
def test_where_no_sentinel_answers_nobody_waits_for_longer(silent: list[str], count: int) -> None:
    """They are one broker, however many they are: each is asked once, the more of them, the shorter."""
    with sending_to("", "sentinels", redis_url=f"redis+sentinel://{','.join(silent[:count])}/orders"):
        began = time.monotonic()
        assert not publish.publish(task_names.HEARTBEAT, "sentinels")
        in_time(time.monotonic() - began < ASKED_WITHIN_S, "the answer that there is no broker")
