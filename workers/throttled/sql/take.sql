-- Hold the row of a published task for `seconds`: its holder starts the task. Returns its site and its place.
-- Promises: of several that ask at once, one gets it. No row is returned where it is gone, or another worker holds it;
-- from a holder whose very message the broker delivers again (`redelivered`), it is taken: that holder is dead, or will
-- find that it has lost the row.
UPDATE throttled_postponedtask
SET held_by = %(token)s, published_at = coalesce(published_at, clock_timestamp()), publications = 0,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(row)s AND (held_by IS NULL OR lease_until < clock_timestamp() OR %(redelivered)s)
RETURNING site, not_before
