-- Compare the users after `after` up to `until`: how many of them have a stored number or unread rows, and the users
-- whose stored number differs from the count of their unread rows. The two also differ while deltas are in Redis, so
-- users found here need a closer look.
SELECT count(*) AS users, array_agg(user_id) FILTER (WHERE stored <> unread) AS differing
FROM (
    SELECT user_id, coalesce(stored.unread_count, 0) AS stored, coalesce(counted.unread, 0) AS unread
    FROM (
        SELECT user_id, unread_count FROM notifications_unreadcount
        WHERE user_id > %(after)s AND user_id <= %(until)s
    ) AS stored
    FULL JOIN (
        SELECT user_id, count(*) AS unread FROM notifications_notification
        WHERE read_at IS NULL AND user_id > %(after)s AND user_id <= %(until)s
        GROUP BY user_id
    ) AS counted USING (user_id)
) AS compared
