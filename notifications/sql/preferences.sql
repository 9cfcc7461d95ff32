-- Return what a user has chosen for a kind, and about digests of all kinds (''); for all kinds if `kind` is NULL.
SELECT kind, channel
FROM weir_notifications_preference
WHERE user_id = %(user)s AND (kind = %(kind)s::text OR kind = '' OR %(kind)s::text IS NULL)
