-- End the batches of which nothing is left: no fetch is unfinished, no change waits, and no caller has said that more is
-- to come. Returns them.
-- Promises: a batch that another transaction has locked is left to the next sweep (skip locked, second look:
-- docs/explanation/sql.md). A fetch that is committed after this statement began opens the batch again when its change
-- is folded.
WITH idle AS MATERIALIZED (
    SELECT id FROM weir_fetches_batch
    WHERE ended_at IS NULL AND NOT is_open AND unfinished = 0
    ORDER BY id
    LIMIT %(most)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE weir_fetches_batch AS batch
SET ended_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM idle)) AND ended_at IS NULL AND NOT is_open AND unfinished = 0 AND (
    SELECT id FROM weir_fetches_batchchange AS change WHERE change.batch_id = batch.id LIMIT 1
) IS NULL
RETURNING id, name, on_done, ended_at
