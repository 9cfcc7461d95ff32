-- Return whether sweep has anything to do: a fetch has not ended, or a call of `on_done` was not made, or is due
-- to be made again; or numbers of a batch are to be folded, or nothing is left of one. First row
-- (docs/explanation/sql.md).
SELECT (
        SELECT id FROM weir_fetches_fetch
        WHERE state = 'queued'
        ORDER BY site_id, priority DESC, not_before, id
        LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM weir_fetches_fetch WHERE state IN ('reserved', 'running') ORDER BY site_id, lease_until LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM weir_fetches_fetch
        WHERE finished_at IS NOT NULL AND on_done_called_at IS NULL AND on_done <> ''
        ORDER BY finished_at
        LIMIT 1
    ) IS NOT NULL
    OR coalesce(
        (
            SELECT on_done_again_at FROM weir_fetches_fetch
            WHERE on_done_again_at IS NOT NULL
            ORDER BY on_done_again_at
            LIMIT 1
        ) <= clock_timestamp(),
        false
    )
    OR (SELECT id FROM weir_fetches_batchchange ORDER BY id LIMIT 1) IS NOT NULL
    OR (
        SELECT id FROM weir_fetches_batch
        WHERE ended_at IS NULL AND NOT is_open AND unfinished = 0
        ORDER BY id
        LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM weir_fetches_batch
        WHERE ended_at IS NOT NULL AND on_done_called_at IS NULL AND on_done <> ''
        ORDER BY ended_at
        LIMIT 1
    ) IS NOT NULL
    OR coalesce(
        (
            SELECT on_done_again_at FROM weir_fetches_batch
            WHERE on_done_again_at IS NOT NULL
            ORDER BY on_done_again_at
            LIMIT 1
        ) <= clock_timestamp(),
        false
    ) AS has_work
