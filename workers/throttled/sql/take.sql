-- Hold the row of a published task for `seconds`: only the holder starts the task. Returns the task's host and its
-- place in the queue; no row if the task's row is gone, or another worker holds it.
--
-- Promises: of several workers that ask at the same time, one gets the row. If the broker delivers the message a second
-- time (`redelivered`), the row is taken from its holder: that worker was killed, or will notice that it has lost the
-- row.
UPDATE weir_throttled_postponedtask
SET held_by = %(token)s, published_at = coalesce(published_at, clock_timestamp()), publications = 0,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(row)s AND (held_by IS NULL OR lease_until < clock_timestamp() OR %(redelivered)s)
RETURNING coalesce(nullif(host, ''), site) AS host, not_before
