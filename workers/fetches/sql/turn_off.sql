-- Turn off the lanes that have nothing queued. Step one of two: `look_again` must follow (see backlog.py).
UPDATE ratelimit_site AS site
SET has_backlog = false
WHERE id = ANY(%(sites)s) AND has_backlog
    -- LIMIT keeps this one look at an index a lane; as EXISTS it may become a walk through the whole queue.
    AND (SELECT id FROM fetches_fetch AS job WHERE job.site_id = site.id AND job.state = 'queued' LIMIT 1) IS NULL
RETURNING id
