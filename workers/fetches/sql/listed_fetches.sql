-- Read the fetches of a page, in the order of `ids`. Row look-up (docs/explanation/sql.md).
SELECT
    job.id, url, state, coalesce(site.name, '') AS site, status_code, error, incomplete, attempts, max_attempts, priority, is_robots,
    coalesce(share, '') AS share, coalesce(reference, '') AS reference, not_before, job.created_at, started_at, finished_at, lateness_ms, elapsed_ms
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS wanted (id, place)
CROSS JOIN LATERAL (SELECT * FROM weir_fetches_fetch WHERE id = wanted.id OFFSET 0) AS job
LEFT JOIN LATERAL (SELECT name FROM weir_ratelimit_site WHERE id = job.site_id OFFSET 0) AS site ON true
ORDER BY place
