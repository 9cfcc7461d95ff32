"""Up to 1,000 fetchers beside the real dispatch: what PostgreSQL uses for them, and what is late first.

pgbench sends the queries that this many fetchers send even without work. The real dispatch reserves once a second at
SITES sites that have work; each message is claimed, and its results are stored in the groups in which a fetcher stores
them, each after its slots' times, by Weir's own functions on a few threads. No process fetches, and there is no broker.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from django.db import connection

from benchmarks import database
from benchmarks.capacity import pgbench
from benchmarks.capacity.usage import Meter, Usage, running_postgresql
from benchmarks.figures import Figure
from benchmarks.scale import tables
from weir.ratelimit import clock
from weir.ratelimit.pacing import Confirmation
from weir.workers import publish, task_names
from weir.workers.fetches.dispatch import dispatch
from weir.workers.fetches.fetcher.claim import claim
from weir.workers.fetches.fetcher.results.store import store
from weir.workers.fetches.fetcher.results.writer import PERIOD
from weir.workers.fetches.jobs import FetchOutcome, Job
from weir.workers.fetches.models import FetchState

FETCHERS = (10, 100, 300, 1_000)
SITES = int(os.environ.get("WEIR_BENCH_BACKLOG", "1000"))  # of one fetch a second each
LASTS_S = float(os.environ.get("WEIR_BENCH_SECONDS", "15"))
WARM_UP_S = 3.0
THREADS = 4
PAGE = os.urandom(2_000)
LOOK_EVERY_S = 0.01

FILL = f"""
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT 'site-' || n || '.bench', interval '1 s', 1, true, false FROM generate_series(1, {SITES}) AS n;
    INSERT INTO weir_fetches_fetch ({tables.COLUMNS})
    SELECT 'http://site-' || n %% {SITES} + 1 || '.bench/' || n, '', 0, n %% {SITES} + 1, 'queued', 0, 0, 5, '[]', '',
        '', '', ''
    FROM generate_series(1, {SITES} * {LASTS_S + WARM_UP_S + 10:.0f}) AS n;
    TRUNCATE weir_processes_process RESTART IDENTITY;
    INSERT INTO weir_processes_process (kind, name, host, pid, version, holds, round_trip_s)
    SELECT 'fetcher', 'fetcher-' || n, 'host-' || n, n, '', 0, 0 FROM generate_series(1, %d) AS n;
"""


@dataclass(kw_only=True)
class Driver:
    """Knows what is to be done at which time, and what was done."""

    ticks_s: list[float] = field(default_factory=list)
    sent: int = 0
    stored: int = 0
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def run(self, lasts_s: float) -> None:
        """Dispatch once a second, and let threads claim and store what was sent. Raises what they raise.

        Counting begins anew. Work that is due later is left to the next run.
        """
        self.ticks_s, self.sent, self.stored = [], 0, 0
        until, next_tick = clock.now() + lasts_s, clock.now()
        begun: list[Future[None]] = []
        with publish.taken_by(self._take), ThreadPoolExecutor(THREADS) as threads:
            while (now := clock.now()) < until:
                if now >= next_tick:
                    next_tick = now + 1.0
                    begun.append(threads.submit(self._tick))
                while self._due and self._due[0][0] <= now:
                    begun.append(threads.submit(heappop(self._due)[2]))
                time.sleep(LOOK_EVERY_S)
            for _ in range(THREADS):
                threads.submit(connection.close)
        for done in begun:
            done.result()

    def _take(self, name: str, arguments: Sequence[Any], _options: object) -> None:
        if name == task_names.FETCH_BATCH:
            self._at(0.0, partial(self._claim, *arguments))

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heappush(self._due, (when, next(self._number), do))

    def _tick(self) -> None:
        began = time.monotonic()
        sent = dispatch()
        with self._counting:
            self.sent += sent
        self.ticks_s.append(time.monotonic() - began)

    def _claim(self, slot_ids: list[int]) -> None:
        together: dict[int, list[Job]] = defaultdict(list)
        for job in claim(slot_ids, Confirmation(asked_at=clock.now())):
            together[int(job.start_at / PERIOD)].append(job)
        for place, jobs in together.items():
            self._at((place + 2) * PERIOD, partial(self._store, jobs))

    def _store(self, jobs: list[Job]) -> None:
        stored = len(store([_outcome(job) for job in jobs]))  # `+=` would read the sum before it
        with self._counting:
            self.stored += stored


def _outcome(job: Job) -> FetchOutcome:
    return FetchOutcome(
        fetch_id=job.fetch_id,
        slot_id=job.slot_id,
        state=FetchState.DONE,
        status_code=200,
        headers='[["Content-Type", "text/html"]]',
        lateness_ms=1.0,
        elapsed_ms=20.0,
        content=PAGE,
    )


def measure(folder: Path) -> Iterator[Figure]:
    """Yield what each number of fetchers takes."""
    with running_postgresql() as postgresql:
        yield Figure(name="capacity_demand", value=SITES, unit="fetches/s")
        for fetchers in FETCHERS:
            yield from _turn(folder, postgresql, fetchers)
    tables.empty()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_processes_process")


def _turn(folder: Path, postgresql: int, fetchers: int) -> Iterator[Figure]:
    tables.empty()
    database.run_at_length(FILL % fetchers)
    tables.vacuum()
    driver = Driver()
    with pgbench.running(folder, postgresql, fetchers, WARM_UP_S + LASTS_S) as asking:
        driver.run(WARM_UP_S)
        meter = Meter(postgresql)
        psutil.cpu_percent()
        driver.run(LASTS_S)
        used, machine = meter.a_second(), psutil.cpu_percent()
        asked = asking.ended()
    if not driver.stored:
        raise RuntimeError("Nothing was stored: the simulation fetched nothing.")
    prefix = f"capacity_{fetchers}_fetchers"
    yield from _figures(prefix, driver, used, asked)
    yield Figure(name=f"{prefix}_machine", value=machine, unit="%")


def _figures(prefix: str, driver: Driver, used: Usage, asked: pgbench.Asked) -> Iterator[Figure]:
    yield Figure(name=f"{prefix}_asked_in_time", value=100 * asked.in_time, unit="%")
    yield Figure(name=f"{prefix}_latency", value=asked.latency_ms, unit="ms")
    yield Figure(name=f"{prefix}_fetches", value=driver.stored / LASTS_S, unit="fetches/s")
    yield Figure(name=f"{prefix}_tick_p50", value=1e3 * median(driver.ticks_s), unit="ms")
    yield Figure(name=f"{prefix}_tick_longest", value=1e3 * max(driver.ticks_s), unit="ms")
    yield Figure(name=f"{prefix}_slots", value=driver.sent / sum(driver.ticks_s), unit="slots/s of a tick")
    yield Figure(name=f"{prefix}_postgresql", value=used.processors, unit="cores")
    yield Figure(name=f"{prefix}_commits", value=used.commits, unit="commits/s")
    yield Figure(name=f"{prefix}_wal", value=used.wal_bytes / 1e6, unit="MB/s")
