"""Where Redis is: connections to the server with our keys, which REDIS_URL, Sentinels or a cluster name."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

from weir.conf import settings
from weir.conf.texts import redis_urls

_Sentinel: Any = Sentinel  # this and the next are not typed
_parsed: Any = parse_url
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 0.5, 1.0  # web code waits for them


@dataclass(kw_only=True, slots=True)
class _Moved:
    """The node of a cluster that has our keys, as another node said last; None before that."""

    to: ConnectionPool | None = None


_moved = _Moved()


def connect() -> Any:  # noqa: ANN401  redis-py's connections are not typed
    """Return a new connection. Raises redis.RedisError.

    In a cluster, the first one is to any node, which says where our keys are: MOVED, see `move`.
    """
    moved, _moved.to = _moved.to, None
    if moved:
        connection = _connected(moved)
        _moved.to = moved
        return connection
    *others, last = _pools()
    for pool in others:
        try:
            return _connected(pool)
        except (redis.RedisError, OSError):
            continue
    return _connected(last)


def move(host: str, port: int) -> None:
    """Connect to this node of the cluster from now on."""
    _moved.to = _node(host, port)


def connect_to(host: str, port: int) -> Any:  # noqa: ANN401  as above
    """Return a new connection to this node of the cluster. Raises redis.RedisError."""
    return _connected(_node(host, port))


def forget() -> None:
    """Read the settings anew."""
    _pools.cache_clear()
    _moved.to = None


def pools(url: str, connect_within_s: float | None = None, answer_within_s: float | None = None) -> list[Any]:
    """Return a pool that can connect to the server that the URL names; for a cluster, one for each node that it names.

    Time-outs are those of web code unless others are given.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": connect_within_s or CONNECT_TIMEOUT_S,
        "socket_timeout": answer_within_s or ANSWER_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        "encoding_errors": "surrogateescape",  # a text that is not UTF-8 is not ours, but has to be read all the same
    }
    kind = redis_urls.kind_of(url)
    if not kind:
        return [ConnectionPool.from_url(url, **options)]
    servers = redis_urls.parse(url)
    if kind == redis_urls.SENTINEL:
        return [_of_sentinels(servers, options)]
    return [ConnectionPool.from_url(servers.url_of(*host), **options) for host in servers.hosts]


def _of_sentinels(servers: redis_urls.RedisServers, options: dict[str, Any]) -> ConnectionPool:
    """Return a pool that connects to the server that the first Sentinel which answers names as the primary."""
    of_redis: dict[str, Any] = {**_parsed(servers.url_of("redis", 0)), **options}
    for name in ("host", "port", "connection_class"):
        of_redis.pop(name, None)
    tls = {"ssl": servers.tls, **{name: value for name, value in of_redis.items() if name.startswith("ssl_")}}
    sentinel = _Sentinel(servers.hosts, sentinel_kwargs={**options, **tls, **servers.of_sentinels})
    pool: ConnectionPool = sentinel.master_for(servers.service, **{**of_redis, "ssl": servers.tls}).connection_pool
    return pool


def _node(host: str, port: int) -> ConnectionPool:
    pool: ConnectionPool = pools(redis_urls.parse(settings.WEIR_REDIS_URL.get_secret_value()).url_of(host, port))[0]
    return pool


def _connected(pool: ConnectionPool) -> Any:  # noqa: ANN401  as above
    connection: Any = pool.make_connection()
    connection.connect()
    return connection


@cache
def _pools() -> list[ConnectionPool]:
    """Return pools that connect to the servers of the settings. They keep no connection."""
    return pools(settings.WEIR_REDIS_URL.get_secret_value())
