"""Connections of the wire to a socket that the test holds."""

import asyncio
import socket
from collections.abc import Callable

from weir.workers.fetches.fetcher.wire.connection import SLOW_READ_EVERY_S, HttpConnection
from weir.workers.fetches.fetcher.wire.turns import Turns


def pair(*, opens: bool = True) -> tuple[HttpConnection, socket.socket]:
    """Return a connection that waits for a request, if it `opens`, and its other end; in a running loop."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    connection = HttpConnection(ours, loop := asyncio.get_running_loop(), Turns(loop, every_s=SLOW_READ_EVERY_S))
    if opens:
        connection.open()
    return connection, theirs


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it holds; the test's own time-out ends it."""
    while not condition():  # noqa: ASYNC110  what it waits for sets no event
        await asyncio.sleep(0.001)
