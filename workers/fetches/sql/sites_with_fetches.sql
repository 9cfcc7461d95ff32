-- Find those of these sites that have fetches that have not ended. Reads only. An earlier statement has locked the
-- sites (ratelimit/sql/hold_sites.sql), so this one sees all that was reserved at them.
SELECT site.id
FROM unnest(%(sites)s::bigint[]) AS site (id)
WHERE (  -- first row (docs/explanation/sql.md)
    SELECT job.id FROM weir_fetches_fetch AS job
    WHERE job.site_id = site.id AND job.state = 'queued'
    ORDER BY job.priority DESC, job.not_before, job.id
    LIMIT 1
) IS NOT NULL OR (
    SELECT job.id FROM weir_fetches_fetch AS job
    WHERE job.site_id = site.id AND job.state IN ('reserved', 'running')
    ORDER BY job.lease_until
    LIMIT 1
) IS NOT NULL
ORDER BY site.id
