-- Return whether a tick of webhooks would find anything to do: an endpoint with room for webhooks that has not read the
-- newest event, or has ends to read that are not in the log yet; one that has answered 410; one with webhooks to a URL
-- that it had before; one that has come back; a paused one with webhooks that are to be held. `newest` is the cursor of
-- the newest event; NULL: none are kept.
-- Index: weir_fetch_of_endpoint (unknown limit, docs/explanation/sql.md). Reads only.
SELECT coalesce(bool_or(CASE
    WHEN paused_at IS NOT NULL THEN EXISTS (
        SELECT FROM weir_fetches_fetch
        WHERE endpoint_id = endpoint.id AND state = 'queued' AND not_before < %(held)s
    )
    ELSE
        (
            (cursor <> %(newest)s OR EXISTS (SELECT FROM weir_events_newevent)) AND (
                SELECT count(*) FROM (
                    SELECT FROM weir_fetches_fetch
                    WHERE endpoint_id = endpoint.id AND state IN ('queued', 'reserved', 'running')
                    LIMIT (SELECT %(most)s::bigint)
                ) AS unfinished
            ) < %(most)s
        )
        OR EXISTS (
            SELECT FROM weir_fetches_fetch
            WHERE endpoint_id = endpoint.id AND state = 'queued'
                AND (status_code = 410 AND started_at > resumed_at OR url <> endpoint.url)
        )
        OR (
            EXISTS (
                SELECT FROM weir_fetches_fetch
                WHERE endpoint_id = endpoint.id AND state = 'done'
                    AND finished_at > woken_at + %(woken_every)s::interval
            )
            AND EXISTS (
                SELECT FROM weir_fetches_fetch
                WHERE endpoint_id = endpoint.id AND state = 'queued' AND error <> ''
                    AND not_before > clock_timestamp() AND not_before < %(held)s
            )
        )
    END), false) AS has_work
FROM weir_webhooks_endpoint AS endpoint
