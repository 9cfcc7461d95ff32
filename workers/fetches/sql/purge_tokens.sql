-- Delete one short batch of access tokens that have neither counted nor been asked for within `older_than` seconds.
WITH old AS (
    SELECT key FROM weir_fetches_accesstoken
    WHERE greatest(refresh_at, expires_at) < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_fetches_accesstoken AS token USING old WHERE token.key = old.key RETURNING 1
)
SELECT count(*) AS deleted FROM gone
