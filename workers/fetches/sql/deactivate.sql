-- Deactivate the backlog flags of sites that have nothing queued. Returns them: reactivate.sql must follow
-- (backlog.py).
UPDATE ratelimit_site AS site
SET has_backlog = false
WHERE id = ANY(%(sites)s) AND has_backlog
    -- First row (docs/explanation/sql.md).
    AND (
        SELECT id FROM fetches_fetch AS job
        WHERE job.site_id = site.id AND job.state = 'queued'
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) IS NULL
RETURNING id
