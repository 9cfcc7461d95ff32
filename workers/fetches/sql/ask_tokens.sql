-- Queue the requests for the access tokens of these clients, each before everything else at the site of its server. A
-- client is left out if its token is not due to be asked for, or is being asked for. The request has no secret: the
-- fetcher adds what the server wants to know. Returns the sites for which a request was queued.
INSERT INTO weir_fetches_fetch (
    url, hop_url, method, site_id, state, token_client, dedupe_key, priority, max_attempts, not_before, correlation_id
)
SELECT
    url, url, 'POST', site_id, 'queued', client, key, %(priority)s, %(max_attempts)s, clock_timestamp(), correlation_id
FROM unnest(
    %(keys)s::uuid[], %(clients)s::text[], %(urls)s::text[], %(sites)s::bigint[], %(correlation_ids)s::text[]
) AS asked (key, client, url, site_id, correlation_id)
LEFT JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT refresh_at FROM weir_fetches_accesstoken WHERE weir_fetches_accesstoken.key = asked.key OFFSET 0
) AS known ON true
WHERE coalesce(known.refresh_at <= clock_timestamp(), true)
ORDER BY key  -- lock order
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND state IN ('queued', 'reserved', 'running') DO NOTHING
RETURNING site_id
