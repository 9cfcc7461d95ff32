-- Mark as read the unread notifications that an e-mail begins to tell: without a due time, they are told. Returns their
-- ids. Rows are locked in the order of their ids, and a row that was read while this waited for its lock is left, as in
-- mark_read.sql. lock_read_marks.sql was executed before, so this statement sees each read mark that covers a row, and no
-- other one is written before the end.
WITH unread AS (
    SELECT id FROM weir_notifications_notification AS row
    WHERE digest_id = %(email)s AND user_id = %(user)s AND read_at IS NULL AND digest_due_at IS NOT NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND NOT EXISTS (
            SELECT FROM weir_notifications_readmark AS mark
            WHERE mark.user_id = %(user)s
                AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
        )
    ORDER BY id
    FOR UPDATE
)
UPDATE weir_notifications_notification AS row
SET read_at = statement_timestamp(), changed_at = statement_timestamp(), digest_due_at = NULL
FROM unread WHERE row.id = unread.id
RETURNING row.id
