-- Some users' stored numbers, and the counts of their unread rows, at one moment.
SELECT
    asked.user_id,
    coalesce(stored.unread_count, 0) AS unread_count,
    coalesce(stored.epoch, 0) AS epoch,
    (
        SELECT count(*) FROM notifications_notification AS row
        WHERE row.user_id = asked.user_id AND row.read_at IS NULL
    ) AS rows
FROM unnest(%(users)s::bigint[]) AS asked(user_id)
LEFT JOIN notifications_unreadcount AS stored ON stored.user_id = asked.user_id
