-- Set the site's clock back to an interval (and a whole burst) from now, unless the clock differs from
-- `reserved_until`, because another process has reserved meanwhile.
-- Execute this when the reserved slots were recalled longer ago than a holder relies on a confirmation. Then the last
-- start has been made; it counts as if it was made now, after a whole burst. Hosts that the site covered before
-- (split_site.sql) have no later promised start either, unless a back-off ends later.
UPDATE weir_ratelimit_site AS site
SET next_start = clock_timestamp() + site.burst * site.effective_interval,
    split_until = CASE WHEN site.split_until IS NOT NULL
        THEN least(site.split_until, greatest(clock_timestamp(), site.backed_off_until)) END
FROM (SELECT id FROM weir_ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id AND site.next_start = %(reserved_until)s
RETURNING site.id
