-- Return whether a watch is due, or a fetch of one has ended and waits to be judged. First row
-- (docs/explanation/sql.md). Reads only.
SELECT coalesce(
        (
            SELECT next_at FROM weir_watches_watch WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1
        ) <= clock_timestamp(),
        false
    )
    OR (
        SELECT id FROM weir_fetches_fetch
        WHERE finished_at IS NOT NULL AND on_done_called_at IS NULL AND on_done = %(on_done)s
        ORDER BY finished_at
        LIMIT 1
    ) IS NOT NULL AS has_work
