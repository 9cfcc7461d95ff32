-- Start nothing at the site for `seconds` (NULL: until it is resumed). Replaces an earlier pause, and recalls the
-- reserved slots (site first). Purge does not delete a site that a person has paused.
UPDATE weir_ratelimit_site AS site
SET paused_until = coalesce(clock_timestamp() + make_interval(secs => %(seconds)s::float8), %(forever)s),
    recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')),
    recalled_at = clock_timestamp(), is_kept = true
FROM (SELECT id FROM weir_ratelimit_site WHERE name = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id
RETURNING site.id
