"""How many connections may wait for a request, without sockets."""

import asyncio
from collections.abc import Iterator

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from project.front import server
from project.front.server import Protocol
from tests.unit.front.asgi import Counting


class Transport(asyncio.Transport):
    """A connection of which is known whether it was cut off; that its protocol is told so only later."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut_off = False
        self._protocol: asyncio.BaseProtocol | None = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol
        return self._protocol

    def abort(self) -> None:
        self.is_cut_off = True


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return a loop that does not run meanwhile."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    Protocol._waiting.clear()
    yield
    Protocol._waiting.clear()


def connected(loop: asyncio.AbstractEventLoop, count: int) -> list[Transport]:
    """Return so many connections, of which no request has come."""
    config = Config(Counting(), log_config=None)
    config.load()
    transports = [Transport() for _ in range(count)]
    for transport in transports:
        protocol = Protocol(config, ServerState(), {}, loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
    return transports


def test_many_that_connect_at_once_are_as_few_as_others(loop: asyncio.AbstractEventLoop) -> None:
    """Each closes another one that waits, also before the loop has heard of the end of the first."""
    transports = connected(loop, server.MOST_WAITING + 30)
    assert [transport.is_cut_off for transport in transports] == [True] * 30 + [False] * server.MOST_WAITING


def test_who_is_cut_off_counts_no_more(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another protocol has the connection by then, and this one does not hear of its end."""
    monkeypatch.setattr(server, "MOST_S", 0.0)
    [transport] = connected(loop, 1)
    loop.call_later(0.0, loop.stop)  # after what was due before
    loop.run_forever()
    assert transport.is_cut_off
    assert not Protocol._waiting
