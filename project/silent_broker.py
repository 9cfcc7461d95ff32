"""A worker that is asked to stop does not wait for a silent broker.

Before a worker ends, Celery sends the broker several requests. If Celery waits for an answer when the worker is asked
to stop, the stop begins only after that. Each such wait lasts as long as the time-out of a socket. So while a worker
stops, a thread asks the broker, too, over a connection of its own. If the broker does not answer three times, the
thread cuts all of the process' connections to the broker, again and again. Code that waits for an answer then gets an
error immediately, and the worker goes on to its end.

The worker does not wait long for its child processes either. If the broker refuses to record that a task has ended, the
worker may stop reading its children's reports. Each child would then wait for half a minute until its report is read;
with this module, it waits for five seconds.

Messages that the worker had not begun stay unacknowledged. The broker delivers them again after their visibility
time-out, and the sweep finds the work of Weir's own messages long before that.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import structlog
from billiard import pool as billiard_pool
from celery.signals import worker_shutting_down
from kombu.transport import redis

from weir.workers import broker_link, task_names

log = structlog.get_logger(__name__)

ASK_EVERY_S = 1.0
ASK_TIMES = 3  # a second or so each
CUT_EVERY_S = 0.1
HEARD_WITHIN_S = 5.0  # after that a child whose report is not read ends, and its message is delivered again

_pools: WeakSet[Any] = WeakSet()  # of redis-py's connections
_lock = threading.Lock()
_channel: Any = redis.Channel  # Kombu ships no types
_make_pool = _channel._get_pool  # noqa: SLF001  Kombu does not publish its connections


def leave_when_silent() -> None:
    """Make workers of this process leave a silent broker when they stop. May be called twice."""
    _channel._get_pool = _noted_pool  # noqa: SLF001  as above
    heard: Any = billiard_pool  # billiard ships no types
    heard.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = int(
        HEARD_WITHIN_S / heard.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_INTERVAL
    )
    worker_shutting_down.connect(_watch, dispatch_uid="weir")


def _noted_pool(channel: Any, **options: object) -> Any:  # noqa: ANN401  as above
    pool = _make_pool(channel, **options)
    with _lock:
        _pools.add(pool)
    return pool


def _watch(**_signal: object) -> None:
    threading.Thread(target=_leave_where_silent, name="silent-broker", daemon=True).start()


def _leave_where_silent() -> None:
    time.sleep(ASK_EVERY_S)  # most workers end sooner
    while _answers():
        time.sleep(ASK_EVERY_S)
    log.warning("broker_is_left", error="the broker does not answer, and this worker is to stop")
    while True:
        for connection in _connections():
            with suppress(AttributeError, OSError):  # the connection is not open
                connection._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001  redis-py has no method for another thread
        time.sleep(CUT_EVERY_S)


def _answers() -> bool:
    for _ in range(ASK_TIMES):
        try:
            broker_link.waiting(task_names.DISPATCH)
        except broker_link.BrokerUnreachable:
            broker_link.forget_outage()
        else:
            return True
    return False


def _connections() -> Iterator[Any]:
    with _lock:
        pools = list(_pools)
    for pool in pools:
        yield from (*pool._in_use_connections, *pool._available_connections)  # noqa: SLF001  as above
