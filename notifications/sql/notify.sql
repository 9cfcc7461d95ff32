-- Write the same notification for many users. Only the users' ids are an array.
WITH written AS (
    INSERT INTO weir_notifications_notification (user_id, kind, title, body, url, expires_at)
    SELECT user_id, %(kind)s, %(title)s, %(body)s, %(url)s, %(expires_at)s::timestamptz
    FROM unnest(%(users)s::user_key[]) AS recipient(user_id)
    RETURNING 1
)
SELECT count(*) AS written FROM written
