"""Servers of tests that answer in a thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


@contextmanager
def answering(server: Server) -> Iterator[Server]:
    """Let the server answer in a thread of its own; close it afterwards."""
    with server:
        thread = Thread(target=server.serve_forever, args=[0.02])  # seconds until it sees that it is to end
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
