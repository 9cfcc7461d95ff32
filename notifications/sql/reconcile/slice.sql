-- The last user of the next slice after `after`: about `users` users, with about `rows` unread rows; NULL where the
-- slice holds all users that are left.
WITH stored AS (
    SELECT max(user_id) AS last_user FROM (
        SELECT user_id FROM notifications_unreadcount WHERE user_id > %(after)s ORDER BY user_id LIMIT %(users)s
    ) AS next_users HAVING count(*) = %(users)s
)
SELECT coalesce(
    (
        SELECT max(user_id) FROM (
            SELECT user_id FROM notifications_notification
            WHERE read_at IS NULL AND user_id > %(after)s
                AND user_id <= coalesce((SELECT last_user FROM stored), 9223372036854775807)
            ORDER BY user_id LIMIT %(rows)s
        ) AS unread HAVING count(*) = %(rows)s
    ),
    (SELECT last_user FROM stored)
) AS last_user
