-- Turn off the lanes that have nothing queued. Step one of two: `look_again` must follow (see backlog.py).
UPDATE ratelimit_site AS site
SET has_backlog = false
WHERE id = ANY(%(sites)s) AND has_backlog
    AND NOT EXISTS (SELECT FROM fetches_fetch AS fetch WHERE fetch.site_id = site.id AND fetch.state = 'queued')
RETURNING id
