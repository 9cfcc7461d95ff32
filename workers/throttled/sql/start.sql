-- Delete the row of a task that starts now in slot `slot`, if it is still held with `token` (fenced write). Returns the
-- seconds until the slot is over (safe duration), NULL if the slot is gone; no row if the task's row is not held so.
WITH gone AS (
    DELETE FROM weir_throttled_postponedtask WHERE id = %(row)s AND held_by = %(token)s RETURNING id
)
SELECT extract(epoch FROM slot.use_until - statement_timestamp())::float8 AS use_until_s
FROM gone LEFT JOIN weir_ratelimit_slot AS slot ON slot.id = %(slot)s
