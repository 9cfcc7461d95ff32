-- Finds the newest e-mail of a kind whose key is this digest with a number: returns its id, the number, and whether it
-- was queued within the last `within`. Keys of one digest have the same length, so the order of texts is that of the
-- numbers, and the index of kinds and keys serves the query.
SELECT
    id,
    right(key, %(digits)s)::int AS number,
    created_at > statement_timestamp() - %(within)s::interval AS is_recent
FROM weir_mail_email
WHERE kind = %(kind)s AND key >= %(first)s AND key <= %(last)s AND starts_with(key, %(digest)s)
ORDER BY key DESC
LIMIT 1
