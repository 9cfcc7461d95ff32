-- Correct the clocks of all sites after PostgreSQL's clock was stepped by `step`, and recall all slots (site first).
-- Returns the sites. Execute this when nothing can start, because no holder has a confirmation on which it may rely.
-- Promises: no start is granted sooner than an interval after the last start, whatever was reserved before and after
-- the step, and whether the clock was read before or after it. `next_start` becomes the earlier of two times, both of
-- which are late enough: the old `next_start`, moved by a step forward, but not by a step back; and a grace and a whole
-- burst from now, as if the last start was made now.
WITH locked AS MATERIALIZED (
    SELECT id FROM weir_ratelimit_site ORDER BY id FOR NO KEY UPDATE
), deleted AS (
    UPDATE weir_ratelimit_deletedsite SET last_start = last_start + greatest(%(step)s, '0'::interval)
)
UPDATE weir_ratelimit_site AS site
SET recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')),
    recalled_at = clock_timestamp(),
    next_start = least(
        next_start + greatest(%(step)s, '0'::interval),
        clock_timestamp() + effective_grace + burst * effective_interval
    ),
    backed_off_until = backed_off_until + %(step)s,
    refused_until = refused_until + %(step)s,
    paused_until = CASE WHEN paused_until >= %(forever)s THEN paused_until ELSE paused_until + %(step)s END,
    split_until = split_until + greatest(%(step)s, '0'::interval),
    due_at = due_at + least(%(step)s, '0'::interval)
WHERE site.id = ANY(ARRAY(SELECT id FROM locked))
RETURNING site.id
