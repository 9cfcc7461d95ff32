-- Let these access tokens count no longer, and be asked for again, because a site has refused them. A token that has
-- been replaced since is another version, and is left alone.
UPDATE weir_fetches_accesstoken AS token
SET expires_at = least(expires_at, clock_timestamp()), refresh_at = least(refresh_at, clock_timestamp())
WHERE key = ANY(ARRAY(
    SELECT known.key
    FROM unnest(%(keys)s::uuid[], %(versions)s::bigint[]) AS refused (key, version)
    JOIN weir_fetches_accesstoken AS known USING (key, version)
    ORDER BY known.key  -- lock order (docs/explanation/sql.md)
    FOR NO KEY UPDATE OF known
))
