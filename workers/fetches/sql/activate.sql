-- Turn on the backlog flag of sites at which fetches were queued; run after their commit. Returns the sites that were
-- off: only these need to be dispatched.
UPDATE ratelimit_site
SET has_backlog = true
WHERE id = ANY(%(sites)s) AND NOT has_backlog
RETURNING id
