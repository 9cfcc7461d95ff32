-- Queue fetches, in the order of the arrays; one without a site has failed already and says why. Runs in the caller's
-- transaction. Returns what the database decided, in the same order.
INSERT INTO fetches_fetch (
    url, hop_url, site_id, state, error, finished_at, not_before, priority, max_attempts, on_done, revalidate,
    redirects, attempts, headers, etag, last_modified
)
SELECT
    wanted.url, hop_url, site_id,
    CASE WHEN site_id IS NULL THEN 'failed' ELSE 'queued' END,
    error,
    CASE WHEN site_id IS NULL THEN clock_timestamp() END,
    coalesce(%(not_before)s, clock_timestamp()),
    %(priority)s, %(max_attempts)s, %(on_done)s, %(revalidate)s,
    0, 0, '[]', '', ''
FROM unnest(%(urls)s::text[], %(hop_urls)s::text[], %(sites)s::bigint[], %(errors)s::text[])
    WITH ORDINALITY AS wanted (url, hop_url, site_id, error, place)
ORDER BY place
RETURNING id, state, created_at, not_before, finished_at
