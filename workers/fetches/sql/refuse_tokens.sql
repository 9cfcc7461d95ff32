-- Let these access tokens be asked for again, and count no longer at the sites that have refused them; one that more than
-- `most` sites refuse counts nowhere. A token that has been replaced since is another version, and is left alone.
UPDATE weir_fetches_accesstoken AS token
SET refused_by = CASE WHEN cardinality(sites) <= %(most)s THEN sites ELSE refused_by END,
    expires_at = CASE WHEN cardinality(sites) <= %(most)s THEN expires_at ELSE least(expires_at, clock_timestamp()) END,
    refresh_at = least(refresh_at, clock_timestamp())
FROM (
    SELECT known.key, array(SELECT unnest(known.refused_by) UNION SELECT unnest(refused.sites)) AS sites
    FROM (
        SELECT key, version, array_agg(site) AS sites
        FROM unnest(%(keys)s::uuid[], %(versions)s::bigint[], %(sites)s::bigint[]) AS given (key, version, site)
        GROUP BY key, version
    ) AS refused
    JOIN weir_fetches_accesstoken AS known USING (key, version)
    ORDER BY known.key  -- lock order (docs/explanation/sql.md)
    FOR NO KEY UPDATE OF known
) AS locked
WHERE token.key = locked.key
