-- Turn lanes on that have queued fetches though they are off; `sites` NULL means all. Returns them.
UPDATE ratelimit_site AS site
SET has_backlog = true
WHERE (%(sites)s::bigint[] IS NULL OR id = ANY(%(sites)s)) AND NOT has_backlog
    -- LIMIT keeps this one look at an index a lane; as EXISTS it may become a walk through the whole queue.
    AND (SELECT id FROM fetches_fetch AS job WHERE job.site_id = site.id AND job.state = 'queued' LIMIT 1) IS NOT NULL
RETURNING id
