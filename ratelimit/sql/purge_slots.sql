-- Look at the next `batch` slots after slot `after`, and delete those whose start is more than `older_than` seconds ago
-- (short batch). Slots that other transactions have locked are left to the next purge (skip locked).
-- Slots are looked at in the order of their ids, which is about the order of the reservations. If all slots of a batch
-- have a recent start and were reserved recently, no later slot is old. Returns one row: how many slots were deleted,
-- the last slot that was looked at, and whether later slots may be old.
--
-- looked_at  the next batch
-- old        the slots to be deleted, locked
-- gone       the slots that were deleted
WITH looked_at AS MATERIALIZED (
    SELECT id, start_time < limit_time AS is_old, start_time < limit_time OR reserved_at < limit_time AS may_precede_old
    FROM weir_ratelimit_slot, (SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8) AS limit_time OFFSET 0) AS clock
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(batch)s
), old AS MATERIALIZED (
    SELECT id FROM weir_ratelimit_slot
    WHERE id = ANY(ARRAY(SELECT id FROM looked_at WHERE is_old))
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_ratelimit_slot WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING 1
)
SELECT
    (SELECT count(*) FROM gone) AS deleted,
    max(id) AS last,
    count(*) = %(batch)s AND bool_or(may_precede_old) AS more
FROM looked_at
