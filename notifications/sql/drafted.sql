-- Return the user's unread notifications that an e-mail is to tell. Rows that a read mark covers are read already, and
-- those that have expired are not to be told any more.
SELECT id, kind, title, body, url, created_at FROM weir_notifications_notification AS row
WHERE digest_id = %(email)s AND user_id = %(user)s AND read_at IS NULL AND digest_due_at IS NOT NULL
    AND (expires_at IS NULL OR expires_at > statement_timestamp())
    AND NOT EXISTS (
        SELECT FROM weir_notifications_readmark AS mark
        WHERE mark.user_id = %(user)s
            AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
    )
ORDER BY id
