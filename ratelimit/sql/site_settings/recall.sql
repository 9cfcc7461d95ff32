-- Void every slot that is reserved at the site.
-- The site's row is locked first: a reservation that is just being made gets lower slots than the recall.
-- Returns until when the site is reserved, and whether that is farther ahead than need be.
UPDATE ratelimit_site AS site
SET recalled_slot = nextval(pg_get_serial_sequence('ratelimit_slot', 'id')), recalled_at = clock_timestamp()
FROM (SELECT id FROM ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id
RETURNING site.id, next_start, next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
