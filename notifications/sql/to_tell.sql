-- Return how many unread notifications of these users each e-mail is to tell that has not told them yet.
SELECT user_id, digest_id AS email_id, count(*) AS rows
FROM weir_notifications_notification
WHERE user_id = ANY (%(users)s::user_key[]) AND read_at IS NULL AND digest_due_at IS NOT NULL AND digest_id IS NOT NULL
GROUP BY user_id, digest_id
ORDER BY digest_id
