"""The tables of the benchmark: of each kind of row as many as the size says, in the states and times of a long run."""

import time
from collections.abc import Iterator

from django.db import connection

from benchmarks import broker, database
from benchmarks.figures import Figure
from benchmarks.once import large
from benchmarks.pages.size import Size

TABLES = """
    weir_fetches_fetchbody, weir_fetches_fetch, weir_fetches_batch, weir_fetches_batchchange,
    weir_fetches_robotsfile, weir_ratelimit_slot, weir_ratelimit_site,
    weir_processes_process, weir_history_minute, weir_history_siteminute, weir_history_total,
    weir_history_watermark, weir_mail_email, weir_mail_rendering, weir_mail_resolution, weir_mail_pausedkind,
    weir_notifications_unreadcount, weir_notifications_doubt, weir_notifications_flushedepoch,
    weir_notifications_repair, weir_notifications_reconciliation
"""
# A hundred sites in 100,000 are paused until an operator resumes them, as many for an hour; four hundred are backed
# off, of which half are unreachable.
SITES = """
    INSERT INTO weir_ratelimit_site (
        name, "interval", burst, has_backlog, covers_subdomains, next_start, paused_until, backed_off_until,
        backoff_level, backoff_error
    )
    SELECT
        'site-' || n || '.bench', interval '1 s', 1, true, false, now() + n % 3 * interval '1 s',
        CASE n % 1000 WHEN 17 THEN '9999-01-01'::timestamptz WHEN 18 THEN now() + interval '1 hour' END,
        CASE WHEN n % 1000 BETWEEN 20 AND 23 THEN now() + interval '1 hour' END,
        CASE WHEN n % 1000 BETWEEN 20 AND 23 THEN 1 + n % 7 ELSE 0 END,
        CASE WHEN n % 1000 BETWEEN 22 AND 23 THEN 'connection refused by site-' || n ELSE '' END
    FROM generate_series(1, {sites}) AS n;
    INSERT INTO weir_fetches_robotsfile (origin, site_id, state, rules, error, refresh_at, expires_at)
    SELECT
        'http://' || name, id, CASE WHEN id % 100 = 0 THEN 'unreachable' ELSE 'allowed' END, '',
        CASE WHEN id % 100 = 0 THEN 'timed out' ELSE '' END, now() + interval '6 hours', now() + interval '1 day'
    FROM weir_ratelimit_site
"""
# Fetches ended in the order of their ids, more and more of them a minute: an eighth in the last two hours. Of a
# hundred, two have failed, and one was cancelled.
ENDED = """
    INSERT INTO weir_fetches_fetch (
        url, hop_url, site_id, state, priority, attempts, max_attempts, status_code, error, slot_id, lateness_ms,
        elapsed_ms, not_before, created_at, started_at, finished_at, batch_id
    )
    SELECT
        url, url, site, state, n % 3, 1, 5, CASE WHEN state = 'done' THEN (ARRAY[200, 200, 200, 404])[1 + n % 4] END,
        CASE WHEN state = 'failed' THEN (ARRAY[
            'the site answered 503', 'the site answered 500', 'connection refused by ' || site, 'timed out after 30 s'
        ])[1 + n / 100 % 4] ELSE '' END,
        n, n % 40, 100, at - interval '10 min', at - interval '10 min', at - interval '100 ms', at,
        CASE WHEN n % 2 = 0 THEN 1 + n::bigint * 31 % {batches} END
    FROM generate_series(1, {ended}) AS n
    CROSS JOIN LATERAL (SELECT
        1 + n::bigint * 7919 % {sites} AS site, n % 100 AS place,
        now() - interval '30 days' * power(1 - n / {ended}::float8, 3) AS at
    ) AS drawn
    CROSS JOIN LATERAL (SELECT
        'http://site-' || site || '.bench/' || n AS url,
        CASE WHEN place IN (3, 7) THEN 'failed' WHEN place = 11 THEN 'cancelled' ELSE 'done' END AS state
    ) AS chosen;
    INSERT INTO weir_fetches_fetchbody (fetch_id, content)
    SELECT id, convert_to(repeat('<p>page</p>', 200), 'UTF8')
    FROM (SELECT id FROM weir_fetches_fetch WHERE state = 'done' ORDER BY id DESC LIMIT 1000) AS newest
"""
# The first site has a long queue, all others share the rest; one in ten is for later.
QUEUED = """
    INSERT INTO weir_fetches_fetch (
        url, hop_url, site_id, state, priority, max_attempts, not_before, created_at, batch_id
    )
    SELECT
        'http://site-' || site || '.bench/new/' || n, '', site, 'queued', n % 3, 5,
        now() + CASE WHEN n % 10 = 0 THEN interval '1 hour' ELSE n * -interval '1 ms' END, now() - n * interval '1 ms',
        CASE WHEN n % 2 = 0 THEN 2 * (1 + n / 2 % ({batches} / 2)) END
    FROM generate_series(1, {queued}) AS n
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n <= {queued_at_first_site} THEN 1 ELSE 1 + n % {sites} END AS site
    ) AS drawn
"""
BATCHES = """
    INSERT INTO weir_fetches_batch (name, unfinished, done, failed, cancelled, ended_at)
    SELECT
        'import-' || n, coalesce(queued, 0), coalesce(done, 0), coalesce(failed, 0), coalesce(cancelled, 0),
        CASE WHEN n % 2 = 1 THEN now() END
    FROM generate_series(1, {batches}) AS n
    LEFT JOIN (
        SELECT
            batch_id,
            count(*) FILTER (WHERE state = 'queued') AS queued,
            count(*) FILTER (WHERE state = 'done') AS done,
            count(*) FILTER (WHERE state = 'failed') AS failed,
            count(*) FILTER (WHERE state = 'cancelled') AS cancelled
        FROM weir_fetches_fetch
        GROUP BY batch_id
    ) AS counted ON counted.batch_id = n
    ORDER BY n
"""
HELD = """
    INSERT INTO weir_fetches_fetch (
        url, hop_url, site_id, state, priority, max_attempts, slot_id, lease_until, started_at
    )
    SELECT
        'http://site-' || site_id || '.bench/now/' || id, '', site_id,
        CASE WHEN id % 4 = 0 THEN 'running' ELSE 'reserved' END, 0, 5, id, now() + interval '1 hour',
        CASE WHEN id % 4 = 0 THEN now() END
    FROM (SELECT id, site_id FROM weir_ratelimit_slot ORDER BY id DESC LIMIT {held}) AS slot
"""
# As many a second as the last hour had, up to three seconds from now. One in fifty is of the first site; one in ten was
# given back, one in a hundred was missed, and slots ahead have no outcome yet.
SLOTS = """
    INSERT INTO weir_ratelimit_slot (
        site_id, start_time, use_until, "interval", run_size, reserved_at, claimed_at, finished_at, released_at
    )
    SELECT
        CASE WHEN n % 50 = 0 THEN 1 ELSE 1 + n::bigint * 7919 % {sites} END, at, at + interval '25 ms', interval '1 s',
        1, at - interval '2 s', at - interval '1 s',
        CASE WHEN n % 10 > 0 AND n % 100 <> 1 AND at < now() THEN at END,
        CASE WHEN n % 10 = 0 AND at < now() THEN at END
    FROM (
        SELECT coalesce(
            (SELECT start_time FROM weir_ratelimit_slot ORDER BY id DESC LIMIT 1), now() - interval '1 hour'
        ) AS last
    ) AS slots,
        LATERAL generate_series(1, ({slots} / 3600.0 * extract(epoch FROM now() + interval '3 s' - last))::int) AS n,
        LATERAL (SELECT last + n * interval '1 hour' / {slots}) AS start(at)
"""
HISTORY = """
    INSERT INTO weir_history_minute (
        minute, fetches_done, fetches_failed, fetches_cancelled, refused, slots_used, slots_given_back, slots_missed,
        slots_void, slots_unreported, slots_allowed, lateness_p50_ms, lateness_p99_ms, emails_sent, emails_failed,
        emails_unknown, unread_flushed
    )
    SELECT at, 29000, 600, 10, 50, 29000, 900, 10, 5, 1, 6000000, 4, 30, 100, 3, 1, 5000
    FROM generate_series(0, {minutes} - 1) AS n,
        LATERAL (SELECT date_trunc('minute', now()) - n * interval '1 minute') AS minute(at);
    INSERT INTO weir_history_siteminute (
        minute, site_id, fetches_done, fetches_failed, fetches_cancelled, refused, slots_used, slots_given_back,
        slots_missed, slots_void, slots_unreported, slots_allowed, lateness_p50_ms, lateness_p99_ms
    )
    SELECT minute, CASE WHEN n = 1 THEN 1 ELSE 1 + n * 7 % {sites} END, 50, 1, 0, 0, 50, 2, 0, 0, 0, 60, 4, 30
    FROM weir_history_minute CROSS JOIN generate_series(1, {busiest}) AS n
    ORDER BY minute
    ON CONFLICT DO NOTHING;
    INSERT INTO weir_history_total (series, label, value)
    VALUES ('fetches_ended', 'done', 1000), ('fetches_ended', 'failed', 10), ('slots', 'used', 1000),
        ('fetch_lateness', '5', 900), ('fetch_lateness', 'inf', 100), ('emails_ended', 'sent', 500);
    INSERT INTO weir_history_watermark (id, rolled_until, epoch) VALUES (1, date_trunc('minute', now()), 0)
    ON CONFLICT DO NOTHING
"""
UNREAD = """
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch)
    SELECT n, 1 + n % 5, 0 FROM generate_series(1, {users}) AS n;
    INSERT INTO weir_notifications_doubt (user_id, noted_at)
    SELECT n, now() - n * interval '1 ms' FROM generate_series(1, {users} / 10) AS n;
    INSERT INTO weir_notifications_flushedepoch (epoch, users, flushed_at)
    SELECT n, 5000, now() - (3600 - n) * interval '1 s' FROM generate_series(1, 3600) AS n;
    INSERT INTO weir_notifications_repair (repaired_at, users, drift)
    SELECT now() - (20000 - n) * interval '1 minute', 1, 1 FROM generate_series(1, 20000) AS n;
    INSERT INTO weir_notifications_reconciliation (
        id, incarnation, server_run, trusted, changes_until, scanned_until, scan_began_at, scan_took, scan_ended_at,
        repaired_users, lease_until
    )
    VALUES (1, '', '', true, now(), {users} / 2, now() - interval '1 min', interval '2 min', now(), 20000, now())
"""
# Six kinds, nearly all of them sent (benchmarks/once/large.py); of those some are unknown instead.
UNKNOWN = """
    UPDATE weir_mail_email
    SET state = 'unknown', claim_token = gen_random_uuid(), sending_since = created_at, sent_at = NULL,
        phase = 'after_dot', last_reply = 'No word'
    WHERE id IN (SELECT id FROM weir_mail_email WHERE state = 'sent' AND id % 7 = 0 ORDER BY id DESC LIMIT {unknown})
"""
PROCESSES = """
    INSERT INTO weir_processes_process (kind, name, host, pid, version, holds)
    SELECT kind, kind || '.' || n || '@host', 'host', n, '0', 0
    FROM unnest(ARRAY['beat', 'ticks', 'maintenance', 'fetcher', 'mailer', 'worker']) AS kind,
        generate_series(1, 4) AS n
"""
SIZE = "SELECT pg_database_size(current_database()) / 1e9"


def fill(size: Size) -> Iterator[Figure]:
    """Fill empty tables, and let PostgreSQL gather statistics; yield how long that took, and the size afterwards."""
    began = time.perf_counter()
    empty()
    with database.hastily():
        large.fill(size.emails)
        _run(UNKNOWN, size)
        _run(SITES, size)
        with database.without_indexes("weir_fetches_fetch"):
            for rows in (ENDED, QUEUED):
                _run(rows, size)
        for rows in (BATCHES, HISTORY, UNREAD, PROCESSES):
            _run(rows, size)
        with database.without_indexes("weir_ratelimit_slot"):
            _run(SLOTS, size)
        _run(HELD, size)
    database.run_at_length(f"VACUUM ANALYZE {TABLES}")
    yield Figure(name="pages_fill", value=time.perf_counter() - began, unit="s")
    with connection.cursor() as cursor:
        cursor.execute(SIZE)
        yield Figure(name="pages_database", value=float(cursor.fetchone()[0]), unit="GB")


def go_on(size: Size) -> None:
    """Add the slots of the time since the last one, as dispatch does."""
    _run(SLOTS, size)


def empty() -> None:
    """Delete all rows, and the messages about them."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
    broker.empty()


def _run(statements: str, size: Size) -> None:
    # The names are those of Size. No statement has other braces.
    database.run_at_length(statements.format(**{name: getattr(size, name) for name in size.__slots__}))
