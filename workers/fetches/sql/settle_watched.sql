-- Settle fetches of watches that this transaction has taken and judged: `tasks` has the task that each calls now, as its
-- `on_done`; empty: it calls none. Returns the calls that are to be made.
WITH settled AS (
    UPDATE weir_fetches_fetch AS job
    SET on_done = CASE WHEN judged.task = '' THEN job.on_done ELSE judged.task END,
        on_done_called_at = CASE WHEN judged.task = '' THEN clock_timestamp() END
    FROM (
        SELECT * FROM unnest(%(fetches)s::bigint[], %(tasks)s::text[]) AS given (fetch_id, task)
        WHERE fetch_id = abs(fetch_id)  -- true condition (docs/explanation/sql.md)
    ) AS judged
    WHERE job.id = judged.fetch_id
    RETURNING job.id, job.on_done, job.correlation_id, judged.task
)
SELECT id AS fetch, on_done, correlation_id FROM settled WHERE task <> ''
