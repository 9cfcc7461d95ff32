-- Queue webhooks to one endpoint, in the order of the arrays, each with its body, in the caller's transaction. Returns
-- their ids in that order.
WITH wanted AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('weir_fetches_fetch', 'id')) AS id, given.*
    FROM unnest(%(message_ids)s::text[], %(bodies)b::bytea[]) WITH ORDINALITY AS given (message_id, content, place)
    ORDER BY place
), queued AS (
    INSERT INTO weir_fetches_fetch (
        id, url, hop_url, site_id, state, not_before, priority, max_attempts, method, max_redirects, request_headers,
        share, endpoint_id
    )
    SELECT
        id, %(url)s, %(hop_url)s, %(site)s, 'queued', clock_timestamp(), 0, %(max_attempts)s, 'POST', 0,
        %(headers)s::jsonb || jsonb_build_object('webhook-id', message_id), %(share)s, %(endpoint)s
    FROM wanted
    ORDER BY place
), bodies AS (
    INSERT INTO weir_fetches_requestbody (fetch_id, content) SELECT id, content FROM wanted
)
SELECT id FROM wanted ORDER BY place
