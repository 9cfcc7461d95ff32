-- Read what is known of the access tokens with these keys. Reads only.
SELECT
    token.key, version, sealed, error,
    extract(epoch FROM clock_timestamp() - obtained_at)::float8 AS age_s,
    extract(epoch FROM expires_at - clock_timestamp())::float8 AS expires_in_s,
    extract(epoch FROM refresh_at - clock_timestamp())::float8 AS refresh_in_s
FROM unnest(%(keys)s::uuid[]) AS wanted (key)
CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT * FROM weir_fetches_accesstoken WHERE weir_fetches_accesstoken.key = wanted.key OFFSET 0
) AS token
