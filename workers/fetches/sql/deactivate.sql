-- Deactivate the backlog flags of those of the sites that have nothing due, and set `due_at` to the time at which their
-- first queued fetch becomes due. Returns the deactivated sites. activate.sql must be run for them afterwards
-- (backlog.py).
--
-- head   the first queued fetch of each priority, at each site (index jump, docs/explanation/sql.md)
-- first  when the first of a site's queued fetches becomes due; NULL if the site has none
WITH RECURSIVE head AS (
    SELECT wanted.id, best.priority, best.not_before
    FROM unnest(%(sites)s::bigint[]) AS wanted (id)
    LEFT JOIN LATERAL (  -- first row
        SELECT priority, not_before FROM weir_fetches_fetch AS job
        WHERE job.site_id = wanted.id AND job.state = 'queued'
        ORDER BY job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) AS best ON true
    UNION ALL
    SELECT head.id, best.priority, best.not_before
    FROM head
    CROSS JOIN LATERAL (
        SELECT priority, not_before FROM weir_fetches_fetch AS job
        WHERE job.site_id = head.id AND job.state = 'queued' AND job.priority < head.priority
        ORDER BY job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) AS best
), first AS (
    SELECT id, min(not_before) AS due_at FROM head GROUP BY id
)
UPDATE weir_ratelimit_backlog AS site
SET has_backlog = false, due_at = first.due_at
FROM (SELECT * FROM first WHERE id = abs(id)) AS first  -- true condition
WHERE site.id = first.id AND site.has_backlog AND coalesce(first.due_at > statement_timestamp(), true)
RETURNING site.id
