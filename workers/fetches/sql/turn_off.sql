-- Turn off the lanes that have nothing queued. Step one of two: `look_again` must follow (see backlog.py).
UPDATE ratelimit_site AS site
SET has_backlog = false
WHERE id = ANY(%(sites)s) AND has_backlog
    -- One look at the queue's index a lane, whatever the statistics: EXISTS, or LIMIT alone, may walk through all rows.
    AND (
        SELECT id FROM fetches_fetch AS job
        WHERE job.site_id = site.id AND job.state = 'queued'
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) IS NULL
RETURNING id
