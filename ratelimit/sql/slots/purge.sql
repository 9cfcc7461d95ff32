-- Look at the next `batch` slots after slot `after`, and delete those whose start lies more than `older_than` seconds
-- back. The clock is in the site's row, so no start is forgotten; what other transactions hold locked is left for the
-- next purge.
-- In the order of the ids, which is that of the reservations: where a whole batch is young, and was reserved lately,
-- nothing that follows can be old. Returns one row: how many were deleted, the last looked at, whether more may be old.
WITH looked_at AS MATERIALIZED (
    SELECT id, start_time < limit_time AS is_old, start_time < limit_time OR reserved_at < limit_time AS may_precede_old
    FROM ratelimit_slot, (SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8) AS limit_time OFFSET 0) AS clock
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(batch)s
), old AS MATERIALIZED (
    SELECT id FROM ratelimit_slot
    WHERE id = ANY(ARRAY(SELECT id FROM looked_at WHERE is_old))
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM ratelimit_slot WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT
    (SELECT count(*) FROM gone) AS deleted,
    max(id) AS last,
    count(*) = %(batch)s AND bool_or(may_precede_old) AS more
FROM looked_at
