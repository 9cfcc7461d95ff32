-- Delete one short batch of slots whose start lies more than `older_than` seconds back. Returns their number.
-- The clock of a lane is in its site, so no start is forgotten; what others hold locked is left for the next batch.
WITH old AS (
    SELECT id
    FROM ratelimit_slot
    WHERE start_time < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM ratelimit_slot USING old WHERE ratelimit_slot.id = old.id RETURNING 1
)
SELECT count(*) AS deleted FROM gone
