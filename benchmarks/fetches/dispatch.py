"""Dispatch from a backlog of a million fetches at 1,000 sites: slots a second, messages to the broker included."""

import time
from pathlib import Path
from statistics import median

from django.db import connection

from benchmarks import broker
from benchmarks.figures import Figure
from weir.workers.fetches.dispatch import dispatch

BACKLOG = 1_000_000
SITES = 1_000
ROUNDS = 7

FILL = f"""
    TRUNCATE weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site
        RESTART IDENTITY CASCADE;
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT 'site-' || n || '.bench', interval '100 ms', 1, true, false FROM generate_series(1, {SITES}) AS n;
    INSERT INTO weir_fetches_fetch (
        url, hop_url, redirects, site_id, state, priority, attempts, max_attempts, headers, etag, last_modified, error,
        on_done
    )
    SELECT
        'http://site-' || (n % {SITES} + 1) || '.bench/' || n, '', 0, n % {SITES} + 1, 'queued', n % 3, 0, 5, '[]',
        '', '', '', ''
    FROM generate_series(1, {BACKLOG}) AS n;
    ANALYZE;
"""

# What fetchers would have done with the slots of the last round.
FETCHED = (
    "UPDATE weir_fetches_fetch SET state = 'done', status_code = 200, finished_at = now() WHERE state = 'reserved'"
)


def measure(_folder: Path) -> list[Figure]:
    """Return the slots a second of a few dispatches of 20,000 slots; each begins with all sites due."""
    rates = []
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(FILL)
        cursor.execute("SET statement_timeout = 60000")
        for _ in range(ROUNDS):
            cursor.execute(FETCHED)  # otherwise fetchers are behind, and dispatch reserves nothing
            cursor.execute("UPDATE weir_ratelimit_site SET next_start = clock_timestamp()")
            broker.empty()  # while many messages wait, dispatch reserves nothing
            began = time.perf_counter()
            sent = dispatch()
            rates.append(sent / (time.perf_counter() - began))
        cursor.execute(
            "TRUNCATE weir_fetches_fetchbody, weir_fetches_fetch, weir_ratelimit_slot, weir_ratelimit_site CASCADE"
        )
    broker.empty()
    return [
        Figure(name="dispatch_backlog", value=BACKLOG, unit="fetches"),
        Figure(name="dispatch_slots_a_call", value=sent, unit="slots"),
        Figure(name="dispatch", value=median(rates), unit="slots/s"),
    ]
