-- Whether sweep has anything to do: a fetch has not ended, or a call of `on_done` was not made.
SELECT EXISTS (SELECT FROM weir_fetches_fetch WHERE state = 'queued')
    OR EXISTS (SELECT FROM weir_fetches_fetch WHERE state IN ('reserved', 'running'))
    OR EXISTS (
        SELECT FROM weir_fetches_fetch
        WHERE finished_at IS NOT NULL AND on_done_called_at IS NULL AND on_done <> ''
    ) AS has_work
