-- Delete a batch of a user's unread notifications beyond the newest `cap`, the oldest first. Rows that other
-- transactions have locked are skipped. If no notifications are beyond the cap, and the stored number is not above the
-- cap, either, delete the user's rows in excess instead. While the stored number is above the cap, these rows stay: if
-- as many notifications come as were deleted, the deltas add up to 0, and no flush would write and note this user.
--
-- Rows that a read mark covers are read. So nothing of a user with a mark is deleted until these rows have a `read_at`.
--
-- Promises: the statement deletes only rows in excess that it sees, and then it also sees the notifications because of
-- which they were written. A row of a flush that commits meanwhile stays.
WITH newest_beyond AS MATERIALIZED (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL AND %(cap)s::bigint > 0
        AND NOT EXISTS (SELECT FROM weir_notifications_readmark WHERE user_id = %(user)s)
    ORDER BY id DESC
    OFFSET greatest(%(cap)s::bigint, 0)
    LIMIT 1
), oldest AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL AND id <= (SELECT id FROM newest_beyond)
    ORDER BY id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_notifications_notification WHERE id = ANY (array(SELECT id FROM oldest)) RETURNING 1
), fitting AS (
    DELETE FROM weir_notifications_excess WHERE user_id = %(user)s AND NOT EXISTS (SELECT FROM newest_beyond)
        AND NOT EXISTS (
            SELECT FROM weir_notifications_unreadcount
            WHERE user_id = %(user)s AND %(cap)s::bigint > 0 AND unread_count > %(cap)s::bigint
        )
)
SELECT count(*) AS deleted FROM gone
