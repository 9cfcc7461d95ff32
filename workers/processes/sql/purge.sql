-- Delete the rows of processes that had no heartbeat for longer than `older_than` seconds. If such a process still
-- lives, its next heartbeat writes a new row.
WITH old AS MATERIALIZED (
    SELECT id
    FROM weir_processes_process
    WHERE turned_at < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
    ORDER BY id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM weir_processes_process WHERE id = ANY(ARRAY(SELECT id FROM old)) RETURNING id
)
SELECT count(*) AS deleted FROM deleted
