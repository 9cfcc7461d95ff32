-- Start nothing in the lane for `seconds` (NULL: until resumed). Replaces an earlier pause.
UPDATE ratelimit_site
SET paused_until = coalesce(clock_timestamp() + make_interval(secs => %(seconds)s::float8), %(forever)s)
WHERE name = %(site)s
RETURNING id
