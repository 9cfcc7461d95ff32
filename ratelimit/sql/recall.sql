-- Recall every slot that is reserved at the site (site first).
-- Returns the site's clock, and whether the clock is farther ahead than the rate needs.
UPDATE weir_ratelimit_site AS site
SET recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')), recalled_at = clock_timestamp()
FROM (SELECT id FROM weir_ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id
RETURNING site.id, next_start, next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
