-- Activate the backlog flags of those of the sites that have queued fetches. Returns those that changed.
-- The second look of deactivate.sql, in a snapshot of its own (backlog.py).
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
