-- Turn lanes on that have queued fetches though they are off; `sites` NULL means all. Returns them.
UPDATE ratelimit_site AS site
SET has_backlog = true
WHERE (%(sites)s::bigint[] IS NULL OR id = ANY(%(sites)s)) AND NOT has_backlog
    AND EXISTS (SELECT FROM fetches_fetch AS job WHERE job.site_id = site.id AND job.state = 'queued')
RETURNING id
