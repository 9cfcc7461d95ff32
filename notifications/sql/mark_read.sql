-- Mark a user's notifications with these ids as read, if they are unread. Returns how many rows changed.
-- Rows are locked in the order of their ids, so that two calls never deadlock. A call that has waited for another call
-- finds the rows read, and does not change them. `IS TRUE` keeps PostgreSQL from going through all unread rows of the
-- user, so that it finds the rows through the primary key. Rows that a read mark covers are read already.
WITH unread AS (
    SELECT id FROM weir_notifications_notification AS row
    WHERE id = ANY (%(ids)s::bigint[]) AND (user_id = %(user)s AND read_at IS NULL) IS TRUE
        AND NOT EXISTS (
            SELECT FROM weir_notifications_readmark AS mark
            WHERE mark.user_id = %(user)s
                AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
        )
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE weir_notifications_notification AS row SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    FROM unread WHERE row.id = unread.id
    RETURNING 1
)
SELECT count(*) AS changed FROM changed
