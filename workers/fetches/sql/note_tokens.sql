-- Store what requests for access tokens brought. A token counts for `usable_s` seconds, and is asked for again after
-- `refresh_s`, both since it was asked for, `age_s` seconds ago. If there is none, the token before stays, and a token
-- is asked for again in `refresh_s` seconds. An older token never replaces a newer one. Some servers give the same token
-- until it has expired: it is asked for again when it no longer counts.
WITH brought AS MATERIALIZED (
    SELECT *, clock_timestamp() AS now
    FROM unnest(
        %(keys)s::uuid[], %(clients)s::text[], %(sealed)b::bytea[], %(age_s)s::float8[], %(usable_s)s::float8[],
        %(refresh_s)s::float8[], %(errors)s::text[]
    ) AS t (key, client, sealed, age_s, usable_s, refresh_s, error)
)
INSERT INTO weir_fetches_accesstoken AS token (
    key, client, version, sealed, obtained_at, expires_at, refresh_at, error
)
SELECT
    key, client, (sealed IS NOT NULL)::int, sealed,
    CASE WHEN sealed IS NOT NULL THEN now - make_interval(secs => age_s) END,
    CASE WHEN sealed IS NOT NULL THEN now + make_interval(secs => usable_s - age_s) END,
    now + make_interval(secs => CASE WHEN sealed IS NOT NULL THEN refresh_s - age_s ELSE refresh_s END),
    error
FROM brought
ORDER BY key  -- lock order (docs/explanation/sql.md)
ON CONFLICT (key) DO UPDATE SET
    version = token.version + EXCLUDED.version,
    sealed = coalesce(EXCLUDED.sealed, token.sealed),
    obtained_at = coalesce(EXCLUDED.obtained_at, token.obtained_at),
    expires_at = coalesce(EXCLUDED.expires_at, token.expires_at),
    refresh_at = CASE WHEN EXCLUDED.sealed = token.sealed THEN EXCLUDED.expires_at ELSE EXCLUDED.refresh_at END,
    error = EXCLUDED.error,
    refused_by = CASE WHEN EXCLUDED.sealed IS NULL THEN token.refused_by END
WHERE EXCLUDED.obtained_at IS NULL OR token.obtained_at IS NULL OR EXCLUDED.obtained_at >= token.obtained_at
