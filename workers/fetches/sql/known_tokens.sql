-- Read what is known of the access tokens with these keys: a row for each that PostgreSQL has, or that was asked for and
-- has not come. Reads only.
SELECT
    wanted.key, token.version, token.sealed, coalesce(token.error, '') AS error,
    extract(epoch FROM clock_timestamp() - token.obtained_at)::float8 AS age_s,
    extract(epoch FROM token.expires_at - clock_timestamp())::float8 AS expires_in_s,
    coalesce(extract(epoch FROM token.refresh_at - clock_timestamp()), 0)::float8 AS refresh_in_s,
    extract(epoch FROM clock_timestamp() - asked.created_at)::float8 AS asked_s,
    token.refused_by
FROM unnest(%(keys)s::uuid[]) AS wanted (key)
LEFT JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT * FROM weir_fetches_accesstoken WHERE weir_fetches_accesstoken.key = wanted.key OFFSET 0
) AS token ON true
LEFT JOIN LATERAL (  -- row look-up: weir_fetch_unfinished_once
    SELECT created_at FROM weir_fetches_fetch
    WHERE dedupe_key = wanted.key AND state IN ('queued', 'reserved', 'running')
    LIMIT 1
) AS asked ON true
WHERE token.key IS NOT NULL OR asked.created_at IS NOT NULL
