-- Set the site's clock back to an interval from now, unless it has changed from `reserved_until`: then another process
-- has reserved.
-- Execute this when the reserved slots have been recalled for longer than a holder relies on a confirmation. The last
-- start has then been made; it counts as made now, with a whole burst. Hosts that the site covered before
-- (split_site.sql) were promised no later start either, unless a back-off ends later.
UPDATE weir_ratelimit_site AS site
SET next_start = clock_timestamp() + site.burst * site.effective_interval,
    split_until = CASE WHEN site.split_until IS NOT NULL
        THEN least(site.split_until, greatest(clock_timestamp(), site.backed_off_until)) END
FROM (SELECT id FROM weir_ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id AND site.next_start = %(reserved_until)s
RETURNING site.id
