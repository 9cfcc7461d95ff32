"""Redis, which holds the deltas of unread numbers, and Celery's broker, which may be another server."""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import redis
from django.conf import settings

from project.doctor.findings import Check, Verdict, good, not_checked, warning, wrong
from project.environment.urls import REDIS_SCHEMES
from weir.conf.texts import redis_urls
from weir.notifications import counters
from weir.redis_link import places
from weir.redis_link.keys import keys
from weir.workers import broker_link, schedule

SERVER, BROKER = "Redis", "the broker"  # what these checks provide
ANSWER_WITHIN_S = 2.0
OLDEST = {"valkey": (8, 0), "redis": (6, 2)}
FAR_S = 0.05  # web code waits for one command at each change of an unread number
FULL = 0.9  # the share of maxmemory that may be in use
ROUND_TRIPS = 5

Info = Mapping[str, Any]


def version(info: Info) -> Verdict:
    """Judge the version."""
    name = "valkey" if info.get("server_name") == "valkey" else "redis"
    text = str(info[f"{name}_version"])
    running = tuple(int(number) for number in text.split(".")[:2])
    told = f"{name.capitalize()} {text}"
    if running < OLDEST[name]:
        return wrong(f"{told} is too old: upgrade to Valkey 8, Redis 6.2, or newer.")
    return good(f"{told}.")


def writes(info: Info) -> Verdict:
    """Judge whether the server takes writes."""
    if info.get("role") != "master":
        return wrong("It is a replica, which takes no writes: set its URL to the primary.")
    failed = [
        what
        for field, what in (("rdb_last_bgsave_status", "its snapshot"), ("aof_last_write_status", "its log"))
        if info.get(field, "ok") != "ok"
    ]
    if failed:
        return wrong(f"It could not write {' and '.join(failed)} to its disk, and may refuse all writes: see its log.")
    return good("It takes writes.")


def memory(info: Info) -> Verdict:
    """Judge what the server does when its memory is full: if it evicts a message, the message is lost."""
    most, used, policy = int(info.get("maxmemory", 0)), int(info["used_memory"]), info.get("maxmemory_policy", "?")
    if not most and policy == "noeviction":
        return good("Nothing is evicted, and memory has no limit.")
    if policy.startswith("allkeys"):
        level = wrong if most else warning
        return level(f"maxmemory-policy is {policy}, which drops messages and deltas: set it to noeviction.")
    if policy != "noeviction":
        return warning(f"maxmemory-policy is {policy}: set it to noeviction, so that nothing is dropped.")
    if used > FULL * most:
        return warning(f"{used / most:.0%} of its memory is used, and writes are refused at 100 %: raise maxmemory.")
    return good(f"Nothing is evicted; {used / most:.0%} of its memory is used.")


def persistence(info: Info) -> Verdict:
    """Say what a restart of the server costs. Weir works with persistence and without."""
    if info.get("aof_enabled"):
        return good("It keeps its data over a restart, by its append-only file.")
    return good("A restart loses messages and deltas, which costs time and nothing else.")


def distance(round_trip_s: float) -> Verdict:
    """Judge how far the server is from this host."""
    text = f"A round trip takes {round_trip_s * 1000:.1f} ms"
    if round_trip_s < FAR_S:
        return good(f"{text}.")
    return warning(f"{text}, for which web code waits at each change of an unread number: run it nearer.")


class _Server:
    """A connection to a Redis server, and the server's last answer to INFO."""

    def __init__(self, url: str) -> None:
        self.info: Info = {}
        self.silent: list[str] = []  # nodes of a cluster that did not answer
        self._url = url
        self._client: Any = None

    def connect(self) -> None:
        """Connect, and run INFO if our user has the right to.

        In a cluster, connect to the node that has our keys. The first node that answers names that node.
        """
        self._client = self._first_that_answers()
        if redis_urls.kind_of(self._url) == redis_urls.CLUSTER:
            self._follow()
        with suppress(redis.exceptions.NoPermissionError):
            self.info = self._client.info("all")

    def _first_that_answers(self) -> Any:  # noqa: ANN401  as redis-py returns it
        timeout_s = ANSWER_WITHIN_S / 2 / len(places.pools(self._url))
        *others, last = places.pools(self._url, timeout_s, timeout_s)
        for pool in others:
            try:
                return _answering(pool)
            except (redis.RedisError, OSError):
                place = pool.connection_kwargs
                self.silent.append(f"{place['host']}:{place['port']}")
        return _answering(last)

    def _follow(self) -> None:
        """Change to the node that has our keys. PostgreSQL has their names; if it is away, keep the node."""
        try:
            with suppress(counters.RedisUnreachable):
                self._client.get(keys().epoch)
        except redis.exceptions.AskError as moved:  # or MovedError
            url = redis_urls.parse(self._url).url_of(moved.host, moved.port)
            timeout_s = ANSWER_WITHIN_S / 4
            self._client = _answering(places.pools(url, timeout_s, timeout_s)[0])

    def judged(self, judge: Callable[[Info], Verdict]) -> Verdict:
        """Return the verdict on the server's answer to INFO."""
        return judge(self.info) if self.info else not_checked("The user of its URL has no right to INFO.")

    def round_trip_s(self) -> float:
        """Return the median time of a round trip."""
        took_s = []
        for _ in range(ROUND_TRIPS):
            began_at = time.perf_counter()
            self._client.ping()
            took_s.append(time.perf_counter() - began_at)
        return statistics.median(took_s)


def _answering(pool: Any) -> Any:  # noqa: ANN401  redis-py's are not typed
    client = redis.Redis(connection_pool=pool)
    client.ping()
    return client


def _connect(server: _Server) -> Verdict:
    try:
        server.connect()
    except (redis.RedisError, OSError) as error:
        raise counters.RedisUnreachable(str(error)) from error
    if server.silent:
        nodes = ", ".join(server.silent)
        return warning(f"The cluster of REDIS_URL answers, but not {nodes}: start it, or take it out of REDIS_URL.")
    return good("The server of REDIS_URL answers." if os.environ.get("REDIS_URL") else "The embedded Valkey answers.")


def _send() -> Verdict:
    """Connect to the broker as a sender of messages does."""
    broker_link.forget_outage()
    try:
        broker_link.waiting_in(schedule.queues()[0])
    except broker_link.BrokerUnreachable as error:
        if error.__cause__ is None:
            return wrong(f"{error}.")
        raise error.__cause__ from None
    return good("The server of CELERY_BROKER_URL answers." if _own_broker() else "It is the same server.")


def _own_broker() -> str:
    """Return the first URL in CELERY_BROKER_URL, which may have several; empty if REDIS_URL names the broker."""
    return os.environ.get("CELERY_BROKER_URL", "").strip().partition(";")[0]


def _checks_of_broker() -> list[Check]:
    """Return the broker's checks.

    If the broker is the server of REDIS_URL, is not Redis, or listens on a Unix socket, only its connection is checked.
    """
    url = _own_broker()
    broker = Check(name="broker", ask=_send, needs=() if url else (SERVER,), provides=BROKER, within_s=5)
    if url.partition("://")[0] not in REDIS_SCHEMES:
        return [broker]
    server = _Server(url)

    def asked(judge: Callable[[Info], Verdict]) -> Verdict:
        if not server.info:
            server.connect()
        return server.judged(judge)

    judges = {"version": version, "writes": writes, "memory": memory}
    of_redis = [
        Check(name=f"broker's {name}", ask=partial(asked, judge), needs=(BROKER,), within_s=3)
        for name, judge in judges.items()
    ]
    return [broker, *of_redis]


def checks() -> list[Check]:
    """Return the checks of this theme."""
    server = _Server(settings.REDIS_URL)
    return [
        Check(name="connection", ask=lambda: _connect(server), provides=SERVER, within_s=ANSWER_WITHIN_S + 1),
        Check(name="version", ask=lambda: server.judged(version), needs=(SERVER,)),
        Check(name="writes", ask=lambda: server.judged(writes), needs=(SERVER,)),
        Check(name="memory", ask=lambda: server.judged(memory), needs=(SERVER,)),
        Check(name="persistence", ask=lambda: server.judged(persistence), needs=(SERVER,)),
        Check(name="distance", ask=lambda: distance(server.round_trip_s()), needs=(SERVER,)),
        *_checks_of_broker(),
    ]
