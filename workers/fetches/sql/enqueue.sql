-- Queue fetches, in the order of the arrays. A fetch without a site is stored as failed, and `errors` says why. Runs in
-- the caller's transaction. Returns what the database decided: one row for each element of the arrays, in their order.
-- If an unfinished fetch has the same `dedupe_key`, the fetch is not queued, and its row is NULL. If another open
-- transaction queues or ends that unfinished fetch, this statement waits for the end of that transaction. It locks no
-- existing row.
-- Rows are inserted in the order of their keys (lock order, docs/explanation/sql.md); ids and ages follow the arrays.
WITH wanted AS MATERIALIZED (
    SELECT
        nextval(pg_get_serial_sequence('weir_fetches_fetch', 'id')) AS id,
        coalesce(%(not_before)s, clock_timestamp()) AS due,
        given.*
    FROM unnest(
        %(urls)s::text[], %(hop_urls)s::text[], %(sites)s::bigint[], %(errors)s::text[], %(dedupe_keys)s::uuid[],
        %(shares)s::text[], %(references)s::text[]
    ) WITH ORDINALITY AS given (url, hop_url, site_id, error, dedupe_key, share, reference, place)
    ORDER BY place
), queued AS (
    INSERT INTO weir_fetches_fetch (
        id, url, hop_url, site_id, state, error, finished_at, not_before, priority, max_attempts, on_done, revalidate,
        dedupe_key, correlation_id, traceparent, request_headers, method, max_redirects, idempotency_key,
        batch_id, share, reference, effect_id
    )
    SELECT
        id, url, hop_url, site_id,
        CASE WHEN site_id IS NULL THEN 'failed' ELSE 'queued' END,
        error,
        CASE WHEN site_id IS NULL THEN clock_timestamp() END,
        due, %(priority)s, %(max_attempts)s, %(on_done)s, %(revalidate)s,
        dedupe_key, %(correlation_id)s, %(traceparent)s, %(request_headers)s::jsonb, %(method)s, %(max_redirects)s,
        CASE WHEN %(needs_key)s::bool THEN gen_random_uuid() END,
        %(batch_id)s::bigint, share, reference, %(effect_id)s::bigint
    FROM wanted
    ORDER BY dedupe_key, place
    ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND state IN ('queued', 'reserved', 'running') DO NOTHING
    RETURNING id, state, created_at, not_before, finished_at, idempotency_key
)
SELECT queued.*
FROM wanted LEFT JOIN queued ON queued.id = wanted.id
ORDER BY place
