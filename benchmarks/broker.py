"""The broker of the benchmarks: the embedded Valkey."""

import redis
from django.conf import settings

from project import embedded


def connect() -> redis.Redis:
    """Return a connection to the broker."""
    return redis.Redis(unix_socket_path=str(embedded.valkey_socket(settings.EMBEDDED_HOME)))


def empty() -> None:
    """Delete all messages, so that no worker acts on them later."""
    with connect() as client:
        client.flushall()
