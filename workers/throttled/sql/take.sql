-- Hold the row of a published task for `seconds`: whoever holds it starts the task. Returns its lane and its place.
-- Promises: of several that ask at once, one gets it. No row comes back where it is gone, or somebody holds it; from
-- a holder whose very message the broker delivers again (`redelivered`), it is taken: he is dead, or finds that out.
UPDATE workers_postponedtask
SET held_by = %(token)s, published_at = coalesce(published_at, clock_timestamp()), publications = 0,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(row)s AND (held_by IS NULL OR lease_until < clock_timestamp() OR %(redelivered)s)
RETURNING site, not_before
