-- Find the successors that have the slots of cancelled fetches. Run by the fetcher that holds the slots. Reads only; each
-- row is found by row look-up (docs/explanation/sql.md).
SELECT
    slot.id AS slot_id, job.id, CASE WHEN job.hop_url = '' THEN job.url ELSE job.hop_url END AS url,
    job.redirects, job.attempts, job.max_attempts,
    slot.passed_on_at, job.is_robots,
    coalesce(site.obeys_robots, %(obey)s::bool) AND job.endpoint_id IS NULL AS obeys_robots,
    job.correlation_id, job.traceparent, CASE WHEN job.redirects > 0 THEN job.url ELSE '' END AS first_url,
    job.losses,
    coalesce(site.headers, '{}') AS site_headers,
    coalesce(site.query, '{}') AS site_query,
    coalesce(job.request_headers, '{}') AS request_headers,
    job.has_left_origin, job.method, job.redirects > 0 AND job.has_become_get AS has_become_get, job.idempotency_key,
    job.max_redirects, job.started_at IS NOT NULL OR job.losses > 0 AS was_sent,
    job.status_code IS NOT DISTINCT FROM 401 AS was_unauthorized, job.token_client,
    CASE WHEN job.token_client <> '' THEN job.dedupe_key END AS token_key, job.endpoint_id
FROM unnest(%(slots)s::bigint[]) AS wanted (slot_id)
CROSS JOIN LATERAL (
    SELECT * FROM weir_fetches_fetch WHERE slot_id = wanted.slot_id AND lease_until IS NOT NULL OFFSET 0
) AS job
CROSS JOIN LATERAL (SELECT id, passed_on_at FROM weir_ratelimit_slot WHERE id = wanted.slot_id OFFSET 0) AS slot
CROSS JOIN LATERAL (SELECT obeys_robots, headers, query FROM weir_ratelimit_site WHERE id = job.site_id OFFSET 0) AS site
WHERE job.state = 'running'
