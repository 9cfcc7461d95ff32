-- Delete, in one short batch, rows about sites that were deleted more than `older_than` seconds ago.
WITH old AS (
    SELECT site_id FROM weir_ratelimit_deletedsite
    WHERE deleted_at < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_ratelimit_deletedsite WHERE site_id = ANY(ARRAY(SELECT site_id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
