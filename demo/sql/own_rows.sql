-- How many notifications of a user are unread, counted.
SELECT count(*) AS unread FROM weir_notifications_notification AS row
WHERE user_id = %(user)s::user_key AND read_at IS NULL
    AND NOT EXISTS (
        SELECT FROM weir_notifications_readmark AS mark
        WHERE mark.user_id = row.user_id
            AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
    )
