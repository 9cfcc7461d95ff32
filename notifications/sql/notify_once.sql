-- Like notify.sql, but only for users who have no notification with this dedupe key. Returns these users.
-- If another transaction has just written the key for a user, the statement waits for the end of that transaction. Rows
-- are inserted in the order of the array. Callers sort it, which prevents deadlocks.
INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, expires_at, dedupe_key)
SELECT user_id, %(kind)s, %(title)s, %(body)s, %(url)s, %(expires_at)s::timestamptz, %(dedupe_key)s
FROM unnest(%(users)s::user_key[]) WITH ORDINALITY AS recipient(user_id, place)
ORDER BY place
ON CONFLICT (user_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
RETURNING user_id
