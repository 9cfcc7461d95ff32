-- Find the fetches that were given these slots and that no fetcher has claimed. Reads only.
SELECT job.id, job.slot_id, job.site_id, job.url, job.priority, job.not_before
FROM unnest(%(slots)s::bigint[]) AS wanted (slot_id)
CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT id, slot_id, site_id, state, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS url, priority, not_before
    FROM weir_fetches_fetch
    WHERE slot_id = wanted.slot_id AND lease_until IS NOT NULL
    OFFSET 0
) AS job
WHERE job.state = 'reserved'
