"""The tables of the benchmark: sites, a queue, results and past slots."""

import os

from django.db import connection

from benchmarks import broker, database

SHARE = float(os.environ.get("WEIR_BENCH_SHARE", "1"))  # of these sizes; use less while developing
SITES = int(100_000 * SHARE)  # with ten fetches each
IDLE_SITES = int(10_000 * SHARE)
QUEUED = int(1_000_000 * SHARE)
ENDED = int(200_000 * SHARE)  # in the last 60 days, of which 30 are kept
SLOTS = int(1_000_000 * SHARE)  # of the last two hours, of which one is kept

FETCHES = "weir_fetches_fetchbody, weir_fetches_fetch"
ALL = f"{FETCHES}, weir_ratelimit_slot, weir_ratelimit_site"
COLUMNS = """
    url, hop_url, redirects, site_id, state, priority, attempts, max_attempts, headers, etag, last_modified, error,
    on_done
"""
FILL = f"""
    INSERT INTO weir_ratelimit_site (name, "interval", burst, has_backlog, covers_subdomains)
    SELECT 'site-' || n || '.bench', interval '1 s', 1, n <= {SITES}, false
    FROM generate_series(1, {SITES + IDLE_SITES}) AS n;

    INSERT INTO weir_fetches_fetch ({COLUMNS})
    SELECT 'http://site-' || n % {SITES} + 1 || '.bench/' || n, '', 0, n % {SITES} + 1, 'queued', n % 3, 0, 5, '[]', '',
        '', '', ''
    FROM generate_series(1, {QUEUED}) AS n;

    INSERT INTO weir_fetches_fetch ({COLUMNS}, status_code, finished_at)
    SELECT 'http://site-' || n % {SITES} + 1 || '.bench/' || n, '', 0, n % {SITES} + 1, 'done', n % 3, 0, 5, '[]', '',
        '', '', '', 200, now() - random() * interval '60 days'
    FROM generate_series(1, {ENDED}) AS n;

    INSERT INTO weir_fetches_fetchbody (fetch_id, content)
    SELECT id, decode(repeat('77', 2000), 'hex') FROM weir_fetches_fetch WHERE state = 'done';

    INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at, finished_at)
    SELECT n % {SITES} + 1, start, start + interval '25 ms', interval '1 s', 1, start - interval '1 s', start
    FROM generate_series(1, {SLOTS}) AS n
    CROSS JOIN LATERAL (VALUES (now() - interval '2 hours' * (1 - n / {SLOTS}::float8))) AS slot(start);
"""


def fill() -> None:
    """Fill empty tables, and let PostgreSQL gather their statistics."""
    empty()
    database.run_at_length(FILL)
    vacuum()


def vacuum() -> None:
    """Do what autovacuum would do: remove dead rows, and gather statistics."""
    database.run_at_length(f"VACUUM ANALYZE {ALL}")


def empty() -> None:
    """Delete all sites, fetches and slots, and the messages about them."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {ALL} RESTART IDENTITY CASCADE")
    broker.empty()
