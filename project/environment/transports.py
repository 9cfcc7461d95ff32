"""Kombu's options for the broker: time-outs, retries, and after how long a silent connection is given up."""

import socket
from collections.abc import Mapping
from typing import Any, Final

from project.environment.urls import split_url
from weir.postgres import sessions

ANSWER_TIMEOUT_S: Final = 10
CONNECT_TIMEOUT_S: Final = 3
HEARTBEAT_S: Final = 10  # of AMQP: after two heartbeats without a sign from the broker, a worker connects anew
# Variables that Celery itself reads: the command `celery` reads the first, each process the others.
_OTHER_BROKERS = ("BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
# A publisher tries twice, without a pause: web code must not wait for a dead broker, and the sweep finds the work of
# messages that were not sent. Kombu would try for 6 seconds. Other settings say how workers reconnect.
_RETRIES: Final = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
_AMQP: Final = {"amqp", "amqps", "pyamqp"}


def other_brokers(variables: Mapping[str, str]) -> str | None:
    """Return the sentence about a variable that would make Celery use another broker; None if no such one is set."""
    if not (name := next((name for name in _OTHER_BROKERS if variables.get(name)), None)):
        return None
    return (
        f"{name} must not be set: by it some of the processes, or some of their connections, would use another broker "
        "than the others. CELERY_BROKER_URL, or else REDIS_URL, names the broker of all."
    )


def is_amqp(url: str) -> bool:
    """Return whether the broker is RabbitMQ, or another server that speaks AMQP."""
    return split_url(url).scheme in _AMQP


def options(url: str, prefix: str) -> dict[str, Any]:
    """Return the options of Kombu's transport for this broker. Keys in Redis begin with the prefix, if there is one."""
    return _RETRIES | (_of_amqp() if is_amqp(url) else _of_redis(prefix))


def _of_amqp() -> dict[str, Any]:
    return {
        "confirm_publish": True,  # without confirmation, a message to a broker that dies is lost without an error
        "read_timeout": ANSWER_TIMEOUT_S,
        "write_timeout": ANSWER_TIMEOUT_S,
        "socket_settings": _keepalive(),
    }


def _of_redis(prefix: str) -> dict[str, Any]:
    return {
        "global_keyprefix": f"{prefix}:" if prefix else "",
        # Without socket_timeout a half-open connection hangs a pool or a publisher forever.
        "socket_timeout": ANSWER_TIMEOUT_S,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "socket_keepalive_options": _keepalive(),
        "health_check_interval": 10,
        "max_connections": 100,
        "visibility_timeout": 3600,
    }


def _keepalive() -> dict[int, int]:
    """Return the TCP options that make the kernel give up a silent broker host as soon as a silent PostgreSQL host."""
    found = {
        "TCP_KEEPIDLE": sessions.PROBE_AFTER_S,
        "TCP_KEEPINTVL": sessions.PROBE_EVERY_S,
        "TCP_KEEPCNT": sessions.PROBES,
        "TCP_USER_TIMEOUT": sessions.SILENCE_S * 1000,
    }
    return {getattr(socket, name): value for name, value in found.items() if hasattr(socket, name)}
