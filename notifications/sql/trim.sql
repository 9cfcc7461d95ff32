-- Delete a batch of the oldest unread notifications of a user, of those beyond the newest `cap`; rows that others hold
-- locked are skipped. If there are none beyond, and the stored number fits, too, delete the user's notes instead. While
-- the stored number does not fit, the notes stay: if as many rows come as were deleted, no flush would write, and note,
-- this user.
--
-- Rows that a read mark covers are read: nothing of a user with a mark is deleted until these rows have their
-- `read_at`.
--
-- Promises: the statement deletes only notes that it sees, and then it also sees the rows that they were written for. A
-- note of a flush that commits meanwhile stays.
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
