-- Activate the backlog flags of sites for which fetches were queued; run after their commit. Returns the sites whose
-- flag was inactive: only these need to be dispatched.
UPDATE ratelimit_site
SET has_backlog = true
WHERE id = ANY(%(sites)s) AND NOT has_backlog
RETURNING id
