"""The broker of a benchmark."""

import redis
from django.conf import settings

from project import embedded


def connect() -> redis.Redis:
    """Return a connection to it."""
    return redis.Redis(unix_socket_path=str(embedded.valkey_socket(settings.EMBEDDED_HOME)))


def empty() -> None:
    """Forget all messages: nobody is to do what they are about."""
    with connect() as client:
        client.flushall()
