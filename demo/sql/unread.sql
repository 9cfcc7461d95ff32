-- The number of unread rows of these users, with which unread numbers are compared; no row for a user without any.
SELECT user_id, count(*) AS unread
FROM weir_notifications_notification
WHERE user_id = ANY(%(users)s::user_key[]) AND read_at IS NULL
GROUP BY user_id
