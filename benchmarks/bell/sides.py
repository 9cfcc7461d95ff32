"""The sides of the comparison, one after the other, on the same web processes."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import quantiles
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection

from benchmarks.bell.polling import Polled, User, poll_all
from benchmarks.bell.size import Size
from benchmarks.fetches import cpu
from benchmarks.figures import Figure
from benchmarks.tabs import sessions
from benchmarks.tabs.web import Web
from benchmarks.unread import stores
from project import embedded
from weir.notifications import inbox

NOT_USERS = range(10**9, 10**9 + 1_000)
# The commands that clients send. Redis also counts commands that scripts execute: of these, ours execute only TIME.
SENT = ("evalsha", "eval", "time", "script|exists", "script|load", "info")
STATISTICS_LAG_S = 1.5  # after which sessions of PostgreSQL have reported what they did
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """What was used until a moment, or between two: seconds of CPU, and what the servers count."""

    at_s: float
    cpu_s: float
    transactions: float
    calls: float

    def since(self, before: "Used") -> "Used":
        """Return what was used between the two."""
        return Used(
            at_s=self.at_s - before.at_s,
            cpu_s=self.cpu_s - before.cpu_s,
            transactions=self.transactions - before.transactions,
            calls=self.calls - before.calls,
        )


def measure(running: Web, cookies: Sequence[str], size: Size) -> Iterator[Figure]:
    """Yield the figures of each side."""
    with embedded.servers(settings.EMBEDDED_HOME) as servers:
        pids = [*running.pids, *(pid for pid in (servers.postgres_pid, servers.valkey_pid) if pid)]
        asking = [User(cookie=cookie) for cookie in cookies]
        users = list(get_user_model().objects.filter(username__startswith=sessions.NAME).values_list("pk", flat=True))
        warm = size.every_s + 1  # each user asks once, and is given an ETag
        asyncio.run(poll_all(asking, running.port, size.every_s, warm, with_etag=True))
        with _notified(NOT_USERS, size.others_per_s):
            idle, _ = _during(pids, lambda: time.sleep(size.idle_s))
            for name, some, changing_per_s, with_etag in (
                ("unchanged", asking, 0, True),
                ("changing", asking, size.changing_per_s, True),
                ("without_etag", asking[: size.without_etag], 0, False),
            ):
                with _notified(users, changing_per_s):
                    ask = partial(poll_all, some, running.port, size.every_s, size.side_s, with_etag=with_etag)
                    used, polled = _during(pids, partial(_run, ask))
                yield from _figures(f"bell_{name}", used, idle, polled)


def _run(ask: Callable[[], Coroutine[Any, Any, Polled]]) -> Polled:
    return asyncio.run(ask())


def _during(pids: Sequence[int], work: Callable[[], Any]) -> tuple[Used, Any]:
    before = _used(pids)
    result = work()
    time.sleep(STATISTICS_LAG_S)
    return _used(pids).since(before), result


def _used(pids: Sequence[int]) -> Used:
    with connection.cursor() as cursor, stores.bare_redis() as client:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(TRANSACTIONS)
        [transactions] = cursor.fetchone()
        told: Any = client.info("commandstats")
        calls = sum(told[f"cmdstat_{name}"]["calls"] for name in SENT if f"cmdstat_{name}" in told)
    return Used(at_s=time.monotonic(), cpu_s=cpu.used_s(pids), transactions=transactions, calls=calls)


def _figures(name: str, used: Used, idle: Used, polled: Polled) -> Iterator[Figure]:
    polls, share = len(polled.times_ms), used.at_s / idle.at_s
    yield Figure(name=f"{name}_cpu", value=100 * (used.cpu_s - share * idle.cpu_s) / used.at_s, unit="% of a core")
    yield Figure(name=f"{name}_cpu_of_a_poll", value=1e3 * (used.cpu_s - share * idle.cpu_s) / polls, unit="ms")
    yield Figure(name=f"{name}_p50", value=quantiles(polled.times_ms, n=100)[49], unit="ms")
    yield Figure(name=f"{name}_p99", value=quantiles(polled.times_ms, n=100)[98], unit="ms")
    transactions = (used.transactions - share * idle.transactions) / polls
    yield Figure(name=f"{name}_transactions_of_a_poll", value=transactions, unit="of PostgreSQL")
    yield Figure(name=f"{name}_calls_of_a_poll", value=(used.calls - share * idle.calls) / polls, unit="of Redis")
    for status, answers in sorted(polled.statuses.items()):
        yield Figure(name=f"{name}_answers_{status}", value=answers, unit="answers")


@contextmanager
def _notified(users: Sequence[int], per_s: int) -> Iterator[None]:
    """Notify `per_s` of these users each second, in a thread, while the block lasts."""
    ended, chance = threading.Event(), Random(1)  # noqa: S311  nothing secret

    def notify() -> None:
        while per_s and not ended.wait(1 / per_s):
            inbox.notify(chance.choice(users), "news", "Hello")
        connection.close()

    thread = threading.Thread(target=notify, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
