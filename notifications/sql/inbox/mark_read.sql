-- Mark these notifications of a user as read, where they are unread. Returns how many rows changed.
-- Rows are locked in the order of their ids, so that two calls never deadlock. A call that waited for another finds the
-- rows read, and does not change them.
WITH unread AS (
    SELECT id FROM notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL AND id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE notifications_notification AS row SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    FROM unread WHERE row.id = unread.id
    RETURNING 1
)
SELECT count(*) AS changed FROM changed
