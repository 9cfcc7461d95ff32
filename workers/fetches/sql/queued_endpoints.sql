-- Return the endpoints that have queued webhooks, in the order of their ids. Index: weir_fetch_of_endpoint (index jump,
-- docs/explanation/sql.md). Reads only.
WITH RECURSIVE endpoint AS (
    (SELECT endpoint_id AS id FROM weir_fetches_fetch WHERE endpoint_id IS NOT NULL ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT following.endpoint_id FROM weir_fetches_fetch AS following
        WHERE following.endpoint_id > endpoint.id ORDER BY following.endpoint_id LIMIT 1
    )
    FROM endpoint WHERE endpoint.id IS NOT NULL
)
SELECT id FROM endpoint
WHERE id IS NOT NULL AND (
    SELECT state FROM weir_fetches_fetch  -- first row
    WHERE endpoint_id = endpoint.id AND state = 'queued' ORDER BY endpoint_id, state, finished_at LIMIT 1
) IS NOT NULL
ORDER BY id
