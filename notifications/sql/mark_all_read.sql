-- Mark all unread notifications of a user as read, if there are at most `most`. If there are more, nothing changes, and
-- `changed` is NULL. The statement does not read rows that a read mark covers (unseen changes). Rows are locked as in
-- mark_read.sql.
WITH found AS MATERIALIZED (
    SELECT id FROM weir_notifications_uncovered(%(user)s::user_key)
    ORDER BY changed_xid
    LIMIT %(most)s + 1
), unread AS (
    SELECT id FROM weir_notifications_notification
    WHERE id = ANY (ARRAY(SELECT id FROM found)) AND user_id = %(user)s AND read_at IS NULL
        AND (SELECT count(*) FROM found) <= %(most)s
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE weir_notifications_notification AS row SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    FROM unread WHERE row.id = unread.id
    RETURNING 1
)
SELECT CASE WHEN (SELECT count(*) FROM found) <= %(most)s THEN (SELECT count(*) FROM changed) END AS changed
