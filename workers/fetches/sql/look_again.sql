-- Turn those of the lanes on that have queued fetches though they are off. Returns them.
UPDATE ratelimit_site AS site
SET has_backlog = true
WHERE id = ANY(%(sites)s) AND NOT has_backlog
    -- One look at the queue's index a lane, whatever the statistics: EXISTS, or LIMIT alone, may walk through all rows.
    AND (
        SELECT id FROM fetches_fetch AS job
        WHERE job.site_id = site.id AND job.state = 'queued'
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) IS NOT NULL
RETURNING id
