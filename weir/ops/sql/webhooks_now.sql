-- Count the endpoints of webhooks that fail, and those that are paused: there are 100 at most. Index:
-- weir_fetch_of_endpoint. Only reads.
SELECT
    count(*) FILTER (WHERE paused_at IS NULL AND (error <> '' OR EXISTS (
        SELECT FROM weir_fetches_fetch AS job
        WHERE job.endpoint_id = endpoint.id AND job.state = 'queued' AND job.error <> ''
    ))) AS failing,
    count(*) FILTER (WHERE paused_at IS NOT NULL) AS paused
FROM weir_webhooks_endpoint AS endpoint
