"""The connection that sends messages: if the broker is away, no caller waits longer than 1.5 seconds.

Web code publishes after its commit, and beat must know soon that it cannot send. So their connections to the broker
have shorter time-outs than those of workers, which wait for messages. For `LEFT_ALONE_S` after a failure, this process
does not ask the broker again, but raises `BrokerUnreachable` immediately: callers do not wait for one time-out after
the other.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import redis.exceptions
from celery import current_app
from kombu import pools
from kombu.exceptions import OperationalError

CONNECT_TIMEOUT_S: Final = 0.5
ANSWER_TIMEOUT_S: Final = 0.9
LEFT_ALONE_S: Final = 3.0
# Options of Kombu's transports for Redis and for AMQP; each transport ignores the other's options.
OPTIONS: Final[dict[str, Any]] = {
    "socket_connect_timeout": CONNECT_TIMEOUT_S,
    "socket_timeout": ANSWER_TIMEOUT_S,
    "read_timeout": ANSWER_TIMEOUT_S,
    "write_timeout": ANSWER_TIMEOUT_S,
}
# Without this check, Kombu raises ValueError when it connects.
NAMELESS: Final = (
    "sentinel:// needs the name of the group: in your settings module (in a clone local/settings.py), "
    "set CELERY_BROKER_TRANSPORT_OPTIONS['master_name']"
)
SILENT: Final = "it does not answer in time"  # used if the driver's error has no text


# Errors with which Redis refuses a command, and what a person then does; `{url}` is the name of the server's URL. The
# first class that matches counts.
_REMEDIES: Final[tuple[tuple[type[redis.exceptions.RedisError], str], ...]] = (
    (redis.exceptions.OutOfMemoryError, "raise its maxmemory, or delete what fills it; nothing of Weir's is lost"),
    (redis.exceptions.ReadOnlyError, "set {url} to the primary: this is a replica"),
    (redis.exceptions.BusyLoadingError, "wait: it reads its data"),
    (redis.exceptions.AuthenticationError, "correct the user and the password in {url}"),
    (redis.exceptions.NoPermissionError, "give its user the rights of docs/operations.md, Rights in Redis"),
    (redis.exceptions.ResponseError, "mend what it names, on its host: its log says more; no restart is needed"),
)
_DISK_FULL: Final = "make room on its disk, or give it one that it may write to: it then takes writes again by itself"


class BrokerUnreachable(Exception):
    """The broker did not answer, or refused. If it did not answer, a message that was sent may have arrived.

    `remedy` says what to do about a refusal; it is empty if the broker did not answer.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


integrated: list[Any] = []  # the Celery apps for which weir.celery.integrate was called


@dataclass(kw_only=True, slots=True)
class _Outage:
    over_at: float = 0.0  # of time.monotonic()
    reason: str = ""
    remedy: str = ""

    def check(self) -> None:
        if time.monotonic() < self.over_at:
            raise BrokerUnreachable(self.reason, self.remedy)


_outage = _Outage()


@contextmanager
def producer() -> Iterator[Any]:
    """Provide an open producer of messages from a pool; raise BrokerUnreachable, also for errors in the block.

    Waits at most 1.5 seconds for a broker that is away, even if other threads have all producers of the pool, because
    those threads wait no longer either. A broker that answers each command, but slowly, is waited for: some 14 round
    trips for the first message of a connection, one or two for each later message. Each silent Sentinel that Kombu asks
    before one that answers delays the first message of a connection by a second: Kombu asks it twice for half a second.
    """
    with _noting_outages(), pools.producers[_connection()].acquire(block=True) as made:
        _outage.check()  # another thread may have found an outage while this one waited
        try:
            yield made
        except errors():
            _drop(made)
            raise


def waiting(task_name: str) -> int:
    """Return how many messages wait in the task's queue for a worker; raise BrokerUnreachable, as `producer` does."""
    return waiting_in(queue_of(task_name))


def queue_of(task_name: str) -> str:
    """Return the name of the queue to which the task is routed."""
    name: str = app().amqp.router.route({}, task_name)["queue"].name
    return name


def waiting_in(queue: str) -> int:
    """Return how many messages wait in the queue for a worker; raise BrokerUnreachable, as `producer` does."""
    with producer() as made:
        messages: int = app().amqp.queues[queue](made.channel).queue_declare().message_count
    return messages


def errors() -> tuple[type[BaseException], ...]:
    """Return the errors that the broker's driver raises if the broker does not answer, or refuses."""
    like = _connection()
    return OperationalError, OSError, *like.connection_errors, *like.channel_errors


def forget_outage() -> None:
    """Let the next caller ask the broker again, even within LEFT_ALONE_S of a failure."""
    _outage.over_at = 0.0


def _drop(producer: Any) -> None:  # noqa: ANN401  as below
    """Make the next producer connect anew, if the broker speaks AMQP: it could take a late answer for its own.

    redis-py closes such a connection itself.
    """
    if (connection := producer.__connection__) and connection.transport.driver_type == "amqp":
        connection.collect()


def app() -> Any:  # noqa: ANN401  Celery's own have no types
    """Return the Celery app whose broker has Weir's messages: the current app if it is integrated, else the first such.

    A project may have several apps. In each thread, Celery's `current_app` is the app that this thread made last. In a
    thread that has made none, it may be an app that is not configured.
    """
    current: Any = current_app
    current = current._get_current_object()  # noqa: SLF001  what it stands for
    return current if current in integrated or not integrated else integrated[0]


def _connection() -> Any:  # noqa: ANN401  as below
    return _connection_of(app())


@cache
def _connection_of(app: Any) -> Any:  # noqa: ANN401  Kombu ships no types
    """Return the connection of which a pool opens copies; this connection itself is never opened.

    If the URL has several brokers (separated by `;`), Kombu tries each once: a second attempt would double the wait.
    Several Sentinels are one broker, and one attempt asks them all. redis-py itself notices if a server was restarted.
    """
    made = app.connection_for_write()
    by_sentinels = made.transport_cls == "sentinel"
    if by_sentinels and not made.transport_options.get("master_name"):
        raise BrokerUnreachable(NAMELESS)
    brokers = 1 if by_sentinels else len(made.alt) or 1
    return app.connection_for_write(
        connect_timeout=CONNECT_TIMEOUT_S,  # for AMQP; for Redis, it is a transport option
        transport_options={**OPTIONS, "max_retries": brokers - 1},
    )


@contextmanager
def _noting_outages() -> Iterator[None]:
    _outage.check()
    try:
        yield
    except errors() as error:
        _outage.over_at, _outage.reason = time.monotonic() + LEFT_ALONE_S, str(error) or SILENT
        _outage.remedy = remedy(error)
        raise BrokerUnreachable(_outage.reason, _outage.remedy) from error


def remedy(error: BaseException | None, url_name: str | None = None) -> str:
    """Return what to do about a refusal, which Kombu may have wrapped; "" if the broker did not answer.

    `url_name` is the variable that has the server's URL, by which the sentence then names the URL.
    """
    while error:
        if str(error).startswith("MISCONF"):
            return _DISK_FULL
        for refusal, told in _REMEDIES:
            if isinstance(error, refusal):
                return told.format(url=url_name or "its URL")
        error = error.__cause__
    return ""
