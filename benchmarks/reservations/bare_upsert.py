"""Reservations a second, compared with the least that a limiter in PostgreSQL can do: a bare upsert of one row.

Both sides are one process that waits for each commit. They take turns in short rounds, so that a change of the
machine's speed affects both; the ratio is the median of the rounds' ratios.
"""

import os
import time
from collections.abc import Callable
from itertools import cycle
from statistics import median

from django.db import connection

from benchmarks import database
from benchmarks.figures import Figure
from weir.ratelimit import site_settings, slots

ROUNDS = int(os.environ.get("WEIR_BENCH_ROUNDS", "9"))
CALLS = 1_500
SITES = 1_000
FAR = 1e9  # seconds that a reservation may lie ahead; no caller waits for it

UPSERT = """
    INSERT INTO bench_bare (name, next_start) VALUES (%s, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET next_start = greatest(clock_timestamp(), bench_bare.next_start) + interval '1 ms'
    RETURNING next_start
"""


def compare() -> list[Figure]:
    """Return the rates and their ratios, for one site and for a thousand in turn."""
    return [figure for sites in (1, SITES) for figure in _compare(sites)]


def _compare(sites: int) -> list[Figure]:
    names = [f"site-{number}.bench" for number in range(sites)]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE weir_ratelimit_slot, weir_ratelimit_site RESTART IDENTITY CASCADE")
        cursor.execute("DROP TABLE IF EXISTS bench_bare")
        cursor.execute("CREATE TABLE bench_bare (name text PRIMARY KEY, next_start timestamptz) WITH (fillfactor = 50)")
    for name in names:
        site_settings.set_rate(name, "1000/s")
    with database.connect() as bare:
        site_of_bare, site_of_weir = cycle(names), cycle(names)

        def upsert() -> None:
            bare.execute(UPSERT, [next(site_of_bare)], prepare=True).fetchone()

        def reserve() -> None:
            slots.reserve(next(site_of_weir), max_wait=FAR)

        for _ in range(sites):  # not measured: the creation of rows and the preparation of statements
            upsert()
            reserve()
        rounds = [(_rate(upsert), _rate(reserve)) for _ in range(ROUNDS)]
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bench_bare")
    what = "one_site" if sites == 1 else f"{sites}_sites"
    return [
        Figure(name=f"bare_upsert_{what}", value=median(bare_rate for bare_rate, _ in rounds), unit="1/s"),
        Figure(name=f"reserve_{what}", value=median(rate for _, rate in rounds), unit="1/s"),
        Figure(
            name=f"reserve_{what}_vs_bare_upsert",
            value=median(rate / bare for bare, rate in rounds),
            unit="x",
        ),
    ]


def _rate(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return CALLS / (time.perf_counter() - began)
