"""Ports of this host."""

import socket
from contextlib import suppress

import redis


def closed_port() -> int:
    """Return a port at which no process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def opened_port(server: redis.Redis) -> int:
    """Let the server listen at a port, too; returns it."""
    for _ in range(20):  # another process may take a port before the server does
        with suppress(redis.ResponseError):
            server.config_set("port", port := closed_port())
            return port
    raise AssertionError("The server can listen at no port.")
