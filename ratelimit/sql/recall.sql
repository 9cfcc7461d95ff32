-- Void every slot that is reserved in the lane. Its row is locked first: a reservation that is just being made gets
-- lower slots than the recall. Returns until when the lane is booked, and whether that is farther away than need be.
UPDATE ratelimit_site AS site
SET recalled_slot = nextval(pg_get_serial_sequence('ratelimit_slot', 'id')), recalled_at = clock_timestamp()
FROM (SELECT id FROM ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id
RETURNING site.id, next_start, next_start > clock_timestamp() + burst * effective_interval AS is_booked
