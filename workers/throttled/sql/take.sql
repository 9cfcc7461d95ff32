-- Hold the row of a published task for `seconds`: only its holder starts the task. Returns its host and its place.
-- Promises: of several workers that ask at the same time, one gets the row. No row is returned if it is gone, or
-- another worker holds it. If the broker delivers the message a second time (`redelivered`), the row is taken from its
-- holder: that worker was killed, or will find that it has lost the row.
UPDATE weir_throttled_postponedtask
SET held_by = %(token)s, published_at = coalesce(published_at, clock_timestamp()), publications = 0,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(row)s AND (held_by IS NULL OR lease_until < clock_timestamp() OR %(redelivered)s)
RETURNING coalesce(nullif(host, ''), site) AS host, not_before
