-- Read the numbers of batches, in the order of `ids`: those of the last fold, and the changes since. Both are of one
-- snapshot, so a fold between them changes nothing. Row look-up (docs/explanation/sql.md). Reads only.
SELECT
    batch.id, name, on_done, is_open,
    batch.unfinished + change.unfinished AS unfinished, batch.done + change.done AS done,
    batch.failed + change.failed AS failed, batch.cancelled + change.cancelled AS cancelled,
    created_at, ended_at, on_done_called_at, on_done_again_at
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS wanted (id, place)
CROSS JOIN LATERAL (SELECT * FROM weir_fetches_batch WHERE weir_fetches_batch.id = wanted.id OFFSET 0) AS batch
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(unfinished), 0)::bigint AS unfinished, coalesce(sum(done), 0)::bigint AS done,
        coalesce(sum(failed), 0)::bigint AS failed, coalesce(sum(cancelled), 0)::bigint AS cancelled
    FROM weir_fetches_batchchange
    WHERE batch_id = wanted.id
) AS change
ORDER BY place
