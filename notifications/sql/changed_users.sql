-- Return the notifications that changed after `after` and `after_id`, up to `until`: at most `most`, the oldest changes
-- first, with the stored numbers of their users (few expected, row look-up). All changes of one statement have the same
-- time, so the id orders them.
SELECT change.changed_at, change.id, change.user_id, coalesce(stored.unread_count, 0) AS unread_count
FROM (
    SELECT changed_at, id, user_id FROM weir_notifications_notification
    WHERE changed_at BETWEEN %(after)s AND %(until)s
        AND (changed_at, id) > (%(after)s, %(after_id)s::bigint)
    ORDER BY changed_at, id
    LIMIT %(most)s
) AS change
LEFT JOIN LATERAL (
    SELECT unread_count FROM weir_notifications_unreadcount WHERE user_id = change.user_id OFFSET 0
) AS stored ON true
ORDER BY change.changed_at, change.id
