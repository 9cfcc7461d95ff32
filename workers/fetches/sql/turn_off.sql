-- Turn off the lanes that have nothing queued. Step one of two: `look_again` must follow (see backlog.py).
UPDATE ratelimit_site AS site
SET has_backlog = false
WHERE id = ANY(%(sites)s) AND has_backlog
    AND NOT EXISTS (SELECT FROM fetches_fetch AS job WHERE job.site_id = site.id AND job.state = 'queued')
RETURNING id
