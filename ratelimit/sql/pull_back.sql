-- Let the lane begin anew an interval from now, if nobody has reserved in it since it was booked until `booked`.
-- To be run when all that was reserved has been recalled for longer than a holder relies on a confirmation: the last
-- start has then been made, and it counts as made just now, with a whole burst.
UPDATE ratelimit_site AS site
SET next_start = clock_timestamp() + site.burst * site.effective_interval
FROM (SELECT id FROM ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id AND site.next_start = %(booked)s
RETURNING site.id
