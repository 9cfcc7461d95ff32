-- Recall all slots of the next `batch` sites after the site `after`, and let these sites rest: nothing starts at a site
-- for the sum of `rest`, its grace, and the time of a whole burst (site first). Returns the sites.
WITH locked AS MATERIALIZED (
    SELECT id
    FROM weir_ratelimit_site
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(batch)s
    FOR NO KEY UPDATE
)
UPDATE weir_ratelimit_site AS site
SET recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')),
    recalled_at = clock_timestamp(),
    next_start = greatest(
        next_start, clock_timestamp() + %(rest)s + effective_grace + burst * effective_interval
    )
WHERE site.id = ANY(ARRAY(SELECT id FROM locked))
RETURNING site.id
