-- The truth that unread numbers are compared with: these users' unread rows; nothing for users who have none.
SELECT user_id, count(*) AS unread
FROM notifications_notification
WHERE user_id = ANY(%(users)s::bigint[]) AND read_at IS NULL
GROUP BY user_id
