-- End a pause and a back-off. The site's clock stays: what was started before still counts.
UPDATE ratelimit_site
SET paused_until = NULL, backed_off_until = NULL, backoff_level = 0
WHERE name = %(site)s
RETURNING id
