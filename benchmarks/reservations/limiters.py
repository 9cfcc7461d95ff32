"""The limiters, each with the same interface: ask for a start, and after a refusal, when to ask again.

Each is set as near to "never closer than the interval" as its documentation allows:

- *Weir* grants one caller a start in the future, and the time until which it may be used; the times of two callers
  never overlap. The cost is the grace between two reservations, at least 15 ms: reservations of one start use a quarter
  of a site's 200/s, runs use almost all of it. PostgreSQL commits each reservation to disk.
- *Weir's throttle* is for code that asks for one start at a time. The callers of a process share runs.
- *pyrate-limiter*, PostgreSQL bucket: a sliding window by PostgreSQL's clock, in whole milliseconds; here 1 in an
  interval. Each site is a table, which is locked without waiting; a caller that finds it locked is refused. Commits to
  disk like Weir. Its own blocking acquire is not used: that stamps a second try with the time for which it was planned,
  and so lets the next caller start too early even within one process.
- *throttled-py*, Redis store: GCRA by the server's clock, in one script; here with burst 1. Its own blocking acquire is
  not used: it never waits less than 0.2 s. Its limits are in the server's memory, written to disk once a second.
- *limits*, Redis storage: a moving window by the callers' clocks, in one script. Windows are whole seconds: it can
  promise 1 a second, but not 1 in 5 ms. The nearest is 200 a second, which lets 200 start together. It has no blocking
  acquire. In memory like throttled-py.

The last three grant a start now or refuse it: the caller starts as soon as it has the answer. In the scenario without
refusals they are set to a million a second, and Weir reserves ahead.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import limits
import limits.storage
import limits.strategies
import redis
from django.conf import settings
from django.db import connection
from psycopg_pool import ConnectionPool
from pyrate_limiter import PostgresBucket, PostgresClock, Rate, RateItem
from throttled import RateLimiterType, RateLimitResult, RedisStore, Throttled, per_sec

from benchmarks import database
from benchmarks.reservations.scenarios import Scenario
from weir.ratelimit import clock, site_settings, slots
from weir.ratelimit.held import process
from weir.ratelimit.models import SHORTEST_GRACE
from weir.ratelimit.slots import Reservation
from weir.ratelimit.throttle import throttle

FAR = 1e9  # seconds that a reservation may lie ahead here
RUN = 20  # starts in one reservation, if a caller takes more than one
WEIR_FASTEST = 1_000  # starts a second, the most that a site may have
SLOW_S = 0.1  # an interval of which the default grace is a small part
MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """Granted starts: those of a reservation or, without a reservation, a single start now."""

    reservation: Reservation | None = None
    started_ns: int | None = None  # if the limiter itself waited for the start


YES = Grant()


class Limiter(Protocol):
    """The limiter of one caller, connected, for the sites of one scenario."""

    def ask(self, site: str) -> Grant | None:
        """Ask for a start; return what was granted, or None for a refusal."""

    def ask_again_at(self, site: str) -> float:
        """Return when to ask again after a refusal, on the clock of holders."""

    def close(self) -> None:
        """Disconnect."""


class Weir:
    """Weir's own limiter; each reservation has a given number of starts."""

    def __init__(self, count: int) -> None:
        self._count = count

    def ask(self, site: str) -> Grant | None:
        """Reserve, however far ahead."""
        return Grant(reservation=slots.reserve(site, count=self._count, max_wait=FAR))

    def ask_again_at(self, site: str) -> float:
        """Raise AssertionError: a reservation is never refused."""
        raise AssertionError(f"{site} refused a reservation that may lie as far ahead as it likes.")

    def close(self) -> None:
        connection.close()


class Throttle:
    """Weir's `throttle`, which waits for each start: its callers are no different from web code."""

    def ask(self, site: str) -> Grant | None:
        """Start, once."""
        with throttle(site, max_wait=FAR):
            return Grant(started_ns=round(clock.now() * 1e9))

    def ask_again_at(self, site: str) -> float:
        """Raise AssertionError: a caller that may wait that long is never refused."""
        raise AssertionError(f"{site} refused a start that may lie as far ahead as it likes.")

    def close(self) -> None:
        """Give back what is held, as a process does when it ends."""
        process.close()
        process.forget()
        connection.close()


class PyrateLimiter:
    """pyrate-limiter's PostgreSQL bucket, a table a site."""

    def __init__(self, scenario: Scenario) -> None:
        rate = Rate(1, round(scenario.interval_s * 1_000)) if scenario.interval_s else Rate(MILLION, 1_000)
        self._pool = ConnectionPool(kwargs=database.parameters(), min_size=1, max_size=1, open=True)
        self._clock = PostgresClock(self._pool)
        self._buckets = {site: PostgresBucket(self._pool, site, [rate]) for site in scenario.names}
        self._asked: dict[str, RateItem] = {}

    def ask(self, site: str) -> Grant | None:
        """Put an item with PostgreSQL's time into the site's bucket."""
        bucket = self._buckets[site]
        self._asked[site] = RateItem(site, self._clock.now())
        return YES if bucket.put(self._asked[site]) else None

    def ask_again_at(self, site: str) -> float:
        """Return when the bucket has room for the item that it refused."""
        wait_ms = self._buckets[site].waiting(self._asked[site])
        if not isinstance(wait_ms, int):
            raise TypeError("A bucket of PostgreSQL answers at once.")
        return clock.now() + max(0, wait_ms) / 1_000

    def close(self) -> None:
        self._pool.close()
        connection.close()


class ThrottledPy:
    """throttled-py's GCRA in Redis."""

    def __init__(self, scenario: Scenario) -> None:
        quota = per_sec(round(1 / scenario.interval_s), burst=1) if scenario.interval_s else per_sec(MILLION)
        store = RedisStore(server=settings.REDIS_URL)
        self._throttled = Throttled(using=RateLimiterType.GCRA.value, quota=quota, store=store)
        self._refused: dict[str, RateLimitResult] = {}

    def ask(self, site: str) -> Grant | None:
        result = self._throttled.limit(site)
        if result.limited:
            self._refused[site] = result
            return None
        return YES

    def ask_again_at(self, site: str) -> float:
        """Return the time that came with the refusal."""
        wait_s: float = self._refused[site].state.retry_after
        return clock.now() + wait_s

    def close(self) -> None:
        """Do nothing: the client's pool closes its connections."""


class Limits:
    """limits' moving window in Redis."""

    def __init__(self, scenario: Scenario) -> None:
        storage = limits.storage.RedisStorage(f"redis+{settings.REDIS_URL}")
        self._window = limits.strategies.MovingWindowRateLimiter(storage)
        self._item = limits.RateLimitItemPerSecond(round(1 / scenario.interval_s) if scenario.interval_s else MILLION)

    def ask(self, site: str) -> Grant | None:
        return YES if self._window.hit(self._item, site) else None

    def ask_again_at(self, site: str) -> float:
        """Return when the window has room again, by the callers' clock, which stamps its entries."""
        wait_s: float = self._window.get_window_stats(self._item, site).reset_time - time.time()
        return clock.now() + wait_s

    def close(self) -> None:
        """Do nothing: the client's pool closes its connections."""


LIMITERS: dict[str, Callable[[Scenario], Limiter]] = {
    "weir": lambda _: Weir(count=1),
    "throttle": lambda _: Throttle(),
    f"weir_runs_of_{RUN}": lambda _: Weir(count=RUN),
    "pyrate_limiter": PyrateLimiter,
    "throttled_py": ThrottledPy,
    "limits": Limits,
}


def set_up(scenario: Scenario) -> None:
    """Delete the state of all limiters, and set the sites' rates for Weir."""
    tear_down(scenario)
    interval_s = scenario.interval_s or 1 / WEIR_FASTEST
    for site in scenario.names:
        grace = SHORTEST_GRACE if interval_s < SLOW_S and not scenario.default_grace else None
        site_settings.set_rate(site, f"{round(1 / interval_s)}/s", grace=grace)


def tear_down(scenario: Scenario) -> None:
    """Delete the state of all limiters."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_ratelimit_slot, weir_ratelimit_site RESTART IDENTITY CASCADE")
        for site in scenario.names:
            cursor.execute(f'DROP TABLE IF EXISTS "ratelimit___{site}"')
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushall()
