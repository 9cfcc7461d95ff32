-- Let the site begin anew an interval from now, unless another process has reserved since it was reserved until
-- `reserved_until`.
-- To be run when all that was reserved has been recalled for longer than a holder relies on a confirmation: the last
-- start has then been made, and it counts as made just now, with a whole burst.
UPDATE ratelimit_site AS site
SET next_start = clock_timestamp() + site.burst * site.effective_interval
FROM (SELECT id FROM ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id AND site.next_start = %(reserved_until)s
RETURNING site.id
