-- The last of the next users after `after`: about `users` of them, with about `rows` unread rows; NULL: all that are left.
SELECT least(
    (
        SELECT max(user_id) FROM (
            SELECT user_id FROM notifications_unreadcount WHERE user_id > %(after)s ORDER BY user_id LIMIT %(users)s
        ) AS stored HAVING count(*) = %(users)s
    ),
    (
        SELECT max(user_id) FROM (
            SELECT user_id FROM notifications_notification
            WHERE read_at IS NULL AND user_id > %(after)s ORDER BY user_id LIMIT %(rows)s
        ) AS unread HAVING count(*) = %(rows)s
    )
) AS last_user
