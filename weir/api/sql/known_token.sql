-- The token whose secret has this hash, if it is valid, and whether its use was noted within `noted_every`.
SELECT
    id,
    name,
    program,
    scopes,
    COALESCE(last_used_at > statement_timestamp() - %(noted_every)s::interval, false) AS was_noted
FROM weir_tokens_token
WHERE secret_hash = %(secret_hash)s AND revoked_at IS NULL AND expires_at > statement_timestamp()
