-- Add up the changes of the next `batches` batches after batch `after`, up to `changes` of each, and delete them. A batch
-- that was changed has not ended any more: it ends anew (end_batches.sql).
-- Promises: each change is added once, as it is deleted in the same statement. A batch that another transaction has
-- locked is left to the next sweep (skip locked, docs/explanation/sql.md). Changes of a batch that is gone are deleted.
-- Returns how many batches were looked at, and the last one.
--
-- waiting  the batches that have changes (index jump)
-- locked   those of them that are there, locked
-- taken    their changes, and those of batches that are gone
-- summed   by how much each batch has changed
WITH RECURSIVE waiting AS (
    (
        SELECT batch_id FROM weir_fetches_batchchange
        WHERE batch_id > %(after)s
        ORDER BY batch_id
        LIMIT 1
    )
    UNION ALL
    SELECT next.batch_id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT batch_id FROM weir_fetches_batchchange AS change
        WHERE change.batch_id > waiting.batch_id
        ORDER BY change.batch_id
        LIMIT 1
    ) AS next
), looked AS MATERIALIZED (
    SELECT batch_id FROM waiting LIMIT %(batches)s
), locked AS MATERIALIZED (
    SELECT id FROM weir_fetches_batch
    WHERE id = ANY(ARRAY(SELECT batch_id FROM looked))
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT change.id
    FROM looked
    CROSS JOIN LATERAL (  -- row look-up
        SELECT id FROM weir_fetches_batchchange WHERE batch_id = looked.batch_id LIMIT %(changes)s
    ) AS change
    WHERE looked.batch_id IN (SELECT id FROM locked)
        OR (SELECT id FROM weir_fetches_batch WHERE id = looked.batch_id LIMIT 1) IS NULL  -- first row
), gone AS (
    DELETE FROM weir_fetches_batchchange
    WHERE id = ANY(ARRAY(SELECT id FROM taken))
    RETURNING batch_id, unfinished, done, failed, cancelled
), summed AS MATERIALIZED (
    SELECT
        batch_id, sum(unfinished)::bigint AS unfinished, sum(done)::bigint AS done, sum(failed)::bigint AS failed,
        sum(cancelled)::bigint AS cancelled
    FROM gone
    GROUP BY batch_id
), folded AS (
    UPDATE weir_fetches_batch AS batch
    SET unfinished = batch.unfinished + summed.unfinished, done = batch.done + summed.done,
        failed = batch.failed + summed.failed, cancelled = batch.cancelled + summed.cancelled,
        ended_at = NULL, on_done_called_at = NULL, on_done_again_at = NULL
    FROM (SELECT * FROM summed WHERE batch_id = abs(batch_id)) AS summed  -- true condition
    WHERE batch.id = summed.batch_id
)
SELECT count(*) AS looked_at, max(batch_id) AS last FROM looked
