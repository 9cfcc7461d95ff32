-- Return the oldest doubts after `after` and `after_user` that were noted up to `until`, with the stored numbers of
-- their users (row look-up).
SELECT doubt.user_id, doubt.noted_at, coalesce(stored.unread_count, 0) AS unread_count
FROM (
    SELECT user_id, noted_at FROM weir_notifications_doubt
    WHERE noted_at <= %(until)s
        AND (
            %(after)s::timestamptz IS NULL OR (noted_at, user_id) > (%(after)s::timestamptz, %(after_user)s::user_key)
        )
    ORDER BY noted_at, user_id
    LIMIT %(most)s
) AS doubt
LEFT JOIN LATERAL (
    SELECT unread_count FROM weir_notifications_unreadcount WHERE user_id = doubt.user_id OFFSET 0
) AS stored ON true
ORDER BY doubt.noted_at, doubt.user_id
