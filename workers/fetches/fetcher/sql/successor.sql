-- Find the successor that has the slot of a cancelled fetch. Run by the fetcher that holds the slot. Reads only.
SELECT
    job.id, CASE WHEN job.hop_url = '' THEN job.url ELSE job.hop_url END AS url,
    job.redirects, job.attempts, job.max_attempts,
    slot.passed_on_at, job.is_robots,
    NOT job.is_robots AND coalesce(site.obeys_robots, %(obey)s::bool) AS obeys_robots,
    job.correlation_id, job.traceparent, CASE WHEN job.redirects > 0 THEN job.url ELSE '' END AS first_url
FROM (
    -- Row look-up (docs/explanation/sql.md).
    SELECT * FROM fetches_fetch WHERE slot_id = %(slot)s AND lease_until IS NOT NULL OFFSET 0
) AS job
JOIN ratelimit_slot AS slot ON slot.id = job.slot_id
JOIN ratelimit_site AS site ON site.id = job.site_id
WHERE job.state = 'running'
