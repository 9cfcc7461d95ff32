-- Delete those of these batches that still have ended, and of which no fetch and no change is there. The caller's
-- transaction has locked them.
DELETE FROM weir_fetches_batch AS batch
WHERE id = ANY(%(ids)s::bigint[]) AND ended_at IS NOT NULL
    AND (SELECT id FROM weir_fetches_fetch WHERE batch_id = batch.id ORDER BY batch_id, state, id LIMIT 1) IS NULL
    AND (SELECT id FROM weir_fetches_batchchange AS change WHERE change.batch_id = batch.id LIMIT 1) IS NULL
