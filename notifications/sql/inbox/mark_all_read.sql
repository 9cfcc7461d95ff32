-- Mark all unread notifications of a user as read. Like mark_read.sql, but without the ids, so that it is planned for
-- many rows.
WITH unread AS (
    SELECT id FROM notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE notifications_notification AS row SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    FROM unread WHERE row.id = unread.id
    RETURNING 1
)
SELECT count(*) AS changed FROM changed
