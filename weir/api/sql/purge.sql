-- Delete the answers that are older than `kept`, the oldest first, up to `batch`. Returns how many were deleted.
WITH old AS MATERIALIZED (
    SELECT id
    FROM weir_api_keptanswer
    WHERE created_at < now() - %(kept)s::interval
    ORDER BY created_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_api_keptanswer
    WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
)
SELECT count(*) AS deleted
FROM gone
