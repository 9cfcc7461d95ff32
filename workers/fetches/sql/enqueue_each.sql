-- Queue fetches for watches: as enqueue.sql does, but each with a priority, `revalidate`, headers and share of its own.
-- Returns the id of each, in the order of the arrays; NULL where an unfinished fetch has the same `dedupe_key`.
-- Rows are inserted in the order of their keys (lock order, docs/explanation/sql.md).
WITH wanted AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('weir_fetches_fetch', 'id')) AS id, given.*
    FROM unnest(
        %(urls)s::text[], %(hop_urls)s::text[], %(sites)s::bigint[], %(errors)s::text[], %(dedupe_keys)s::uuid[],
        %(priorities)s::int[], %(revalidates)s::bool[], %(headers)s::text[], %(shares)s::text[]
    ) WITH ORDINALITY AS given (url, hop_url, site_id, error, dedupe_key, priority, revalidate, headers, share, place)
    ORDER BY place
), queued AS (
    INSERT INTO weir_fetches_fetch (
        id, url, hop_url, site_id, state, error, finished_at, not_before, priority, max_attempts, on_done, revalidate,
        dedupe_key, request_headers, share
    )
    SELECT
        id, url, hop_url, site_id,
        CASE WHEN site_id IS NULL THEN 'failed' ELSE 'queued' END,
        error,
        CASE WHEN site_id IS NULL THEN clock_timestamp() END,
        clock_timestamp(), priority, %(max_attempts)s, %(on_done)s, revalidate, dedupe_key, headers::jsonb,
        share
    FROM wanted
    ORDER BY dedupe_key
    ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND state IN ('queued', 'reserved', 'running') DO NOTHING
    RETURNING id
)
SELECT queued.id
FROM wanted LEFT JOIN queued ON queued.id = wanted.id
ORDER BY place
