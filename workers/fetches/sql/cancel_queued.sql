-- Cancel up to `most` queued fetches of a batch, in the caller's transaction. They have no slots. One that another
-- transaction has locked, such as dispatch, is left alone (skip locked, docs/explanation/sql.md). Returns the calls of
-- `on_done` that are to be made; a fetch without a task has an empty one.
WITH queued AS MATERIALIZED (
    SELECT id FROM weir_fetches_fetch
    WHERE batch_id = %(batch)s AND state = 'queued'
    ORDER BY batch_id, state, id  -- index order
    LIMIT (SELECT %(most)s::bigint)  -- unknown limit
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE weir_fetches_fetch
SET state = 'cancelled', finished_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM queued)) AND state = 'queued'
RETURNING id AS fetch, on_done, correlation_id
