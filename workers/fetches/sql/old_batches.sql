-- Lock the batches that ended more than `older_than` seconds ago, and have called their tasks, at most `most` of them.
-- One that another transaction holds is left alone (skip locked, docs/explanation/sql.md).
SELECT id
FROM weir_fetches_batch
WHERE ended_at < (SELECT clock_timestamp() - make_interval(secs => %(older_than)s::float8))  -- one clock
    AND (on_done = '' OR on_done_called_at IS NOT NULL) AND on_done_again_at IS NULL
    AND (  -- first row
        SELECT id FROM weir_fetches_fetch WHERE batch_id = weir_fetches_batch.id ORDER BY batch_id, state, id LIMIT 1
    ) IS NULL
ORDER BY ended_at
LIMIT %(most)s
FOR UPDATE SKIP LOCKED
