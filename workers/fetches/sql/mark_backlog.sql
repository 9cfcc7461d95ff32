-- Turn on the lanes of fetches that were queued; run after their commit. Returns the lanes that were off: they alone
-- need to be poked.
UPDATE ratelimit_site
SET has_backlog = true
WHERE id = ANY(%(sites)s) AND NOT has_backlog
RETURNING id
