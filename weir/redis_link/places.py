"""Connections to the Redis server that has our keys. REDIS_URL, Sentinels, or a node of a cluster names this server."""

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

_Sentinel: Any = Sentinel  # redis-py has no types for this name and the next
_parsed: Any = parse_url
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 0.5, 1.0  # as short as this because web code waits


@dataclass(kw_only=True, slots=True)
class _Moved:
    """The node of a cluster that has our keys, as another node said last; None before a node has said so."""

    to: ConnectionPool | None = None


_moved = _Moved()


def connect() -> Any:  # noqa: ANN401  redis-py's connections are not typed
    """Return a new connection. Raises redis.RedisError.

    In a cluster, the first connection is to any node. That node says which node has our keys (MOVED; see `move`).
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
    """Return a pool for the server that the URL names; if it names a cluster, one for each of the nodes in the URL.

    The time-outs are those of web code unless others are given.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": connect_within_s or CONNECT_TIMEOUT_S,
        "socket_timeout": answer_within_s or ANSWER_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        "encoding_errors": "surrogateescape",  # Weir writes UTF-8 only, but must also read what others wrote
    }
    kind = redis_urls.kind_of(url)
    if not kind:
        return [ConnectionPool.from_url(url, **options)]
    servers = redis_urls.parse(url)
    if kind == redis_urls.SENTINEL:
        return [_of_sentinels(servers, options)]
    return [ConnectionPool.from_url(servers.url_of(*host), **options) for host in servers.hosts]


def _of_sentinels(servers: redis_urls.RedisServers, options: dict[str, Any]) -> ConnectionPool:
    """Return a pool that connects to the primary that the first answering Sentinel names."""
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
    # Not by `pool.make_connection`, which counts all connections that it has ever made: from redis-py 8 on, it refuses
    # the 101st. A process that was refused a hundred times while Redis was away would never reach Redis again.
    connection: Any = pool.connection_class(**pool.connection_kwargs)
    connection.connect()
    return connection


@cache
def _pools() -> list[ConnectionPool]:
    """Return pools that can connect to the servers in the settings. The pools keep no connections."""
    return pools(settings.WEIR_REDIS_URL.get_secret_value())
