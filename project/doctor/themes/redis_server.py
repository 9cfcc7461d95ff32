"""Redis, which holds the deltas of unread numbers, and Celery's broker, which may be another."""

import os
import statistics
import time
from collections.abc import Mapping
from typing import Any

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from notifications import counters
from project.doctor.findings import Check, Verdict, good, warning, wrong
from workers import broker_link, heartbeats

SERVER, BROKER = "Redis", "the broker"  # what these checks provide
ANSWER_WITHIN_S = 2.0
OLDEST = {"valkey": (8, 0), "redis": (6, 2)}
FAR_S = 0.05  # web code waits for one command at each change
FULL = 0.9  # the part of maxmemory that may be in use
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
    """Judge whether it takes what is written."""
    if info.get("role") != "master":
        return wrong("It is a replica, which takes no writes: have the URL name the primary.")
    failed = [
        what
        for field, what in (("rdb_last_bgsave_status", "its snapshot"), ("aof_last_write_status", "its log"))
        if info.get(field, "ok") != "ok"
    ]
    if failed:
        return wrong(f"It could not write {' and '.join(failed)} to its disk, and may refuse all writes: see its log.")
    return good("It takes writes.")


def memory(info: Info) -> Verdict:
    """Judge what happens where its memory is full: an evicted message is a lost one."""
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
    """Say what a restart costs. Either is right."""
    if info.get("aof_enabled"):
        return good("It keeps its data over a restart, by its append-only file.")
    return good("A restart loses messages and deltas, which costs time and nothing else.")


def distance(round_trip_s: float) -> Verdict:
    """Judge how far it is from this host."""
    text = f"A round trip takes {round_trip_s * 1000:.1f} ms"
    if round_trip_s < FAR_S:
        return good(f"{text}.")
    return warning(f"{text}, for which web code waits at each change of an unread number: run it nearer.")


class _Server:
    """A connection to the server of REDIS_URL, and what that has said."""

    def __init__(self) -> None:
        self.info: Info = {}
        self._client: Any = None

    def connect(self) -> Verdict:
        retry = Retry(NoBackoff(), 0)
        url, timeout_s = settings.REDIS_URL, ANSWER_WITHIN_S / 2
        try:
            self._client = redis.Redis.from_url(
                url, socket_connect_timeout=timeout_s, socket_timeout=timeout_s, retry=retry
            )
            self.info = self._client.info("all")
        except (redis.RedisError, OSError) as error:
            raise counters.Unreachable(str(error)) from error
        return good(
            "The server of REDIS_URL answers." if os.environ.get("REDIS_URL") else "The embedded Valkey answers."
        )

    def round_trip_s(self) -> float:
        took_s = []
        for _ in range(ROUND_TRIPS):
            began_at = time.perf_counter()
            self._client.ping()
            took_s.append(time.perf_counter() - began_at)
        self._client.close()
        return statistics.median(took_s)


def _broker() -> Verdict:
    broker_link.forget_outage()
    try:
        broker_link.waiting_in(heartbeats.QUEUES[0])
    except broker_link.Unreachable as error:
        raise error.__cause__ or error from None
    return good("It takes messages." if os.environ.get("CELERY_BROKER_URL") else "It is the same server.")


def checks() -> list[Check]:
    """Return the checks of this theme."""
    server, is_same = _Server(), not os.environ.get("CELERY_BROKER_URL")
    return [
        Check(name="connection", ask=server.connect, provides=SERVER, within_s=ANSWER_WITHIN_S + 1),
        Check(name="version", ask=lambda: version(server.info), needs=(SERVER,)),
        Check(name="writes", ask=lambda: writes(server.info), needs=(SERVER,)),
        Check(name="memory", ask=lambda: memory(server.info), needs=(SERVER,)),
        Check(name="persistence", ask=lambda: persistence(server.info), needs=(SERVER,)),
        Check(name="distance", ask=lambda: distance(server.round_trip_s()), needs=(SERVER,)),
        Check(name="broker", ask=_broker, needs=(SERVER,) if is_same else (), provides=BROKER, within_s=5),
    ]
