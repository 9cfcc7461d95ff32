-- Set the crawl delay that robots.txt asks for (NULL: none). If this changes the effective interval, the reserved
-- slots are recalled, and `next_start` moves so that the last start is followed by the new interval.
UPDATE weir_ratelimit_site AS site
SET crawl_delay = %(crawl_delay)s,
    next_start = site.next_start + greatest(
        greatest(site."interval", %(crawl_delay)s) - site.effective_interval,
        site.burst * (greatest(site."interval", %(crawl_delay)s) - site.effective_interval)
    ),
    (recalled_slot, recalled_at) = (
        SELECT
            CASE WHEN changes THEN nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')) ELSE site.recalled_slot END,
            CASE WHEN changes THEN clock_timestamp() ELSE site.recalled_at END
        FROM (SELECT greatest(site."interval", %(crawl_delay)s) <> site.effective_interval AS changes) AS compared
    )
FROM (SELECT id FROM weir_ratelimit_site WHERE id = %(site)s FOR NO KEY UPDATE) AS locked
WHERE site.id = locked.id AND site.crawl_delay IS DISTINCT FROM %(crawl_delay)s
RETURNING site.id
