-- Turn on the backlog flag of those sites that have queued fetches though they are off. Returns them.
UPDATE ratelimit_site AS site
SET has_backlog = true
WHERE id = ANY(%(sites)s) AND NOT has_backlog
    -- First row (docs/explanation/sql.md).
    AND (
        SELECT id FROM fetches_fetch AS job
        WHERE job.site_id = site.id AND job.state = 'queued'
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) IS NOT NULL
RETURNING id
