-- Return up to `most` users of the first `rows` unread notifications that a digest is to tell now. Rows that a read mark
-- covers are read already. Rows that other transactions have locked are left: nobody can give them to an e-mail now.
SELECT DISTINCT user_id
FROM (
    SELECT row.id, row.user_id, row.changed_xid
    FROM weir_notifications_notification AS row
    WHERE read_at IS NULL AND digest_id IS NULL
        AND digest_due_at BETWEEN '-infinity' AND statement_timestamp()  -- few expected
    ORDER BY digest_due_at
    LIMIT %(rows)s
    FOR UPDATE OF row SKIP LOCKED
) AS due
WHERE NOT EXISTS (
    SELECT FROM weir_notifications_readmark AS mark
    WHERE mark.user_id = due.user_id
        AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, due.id, due.changed_xid)
)
LIMIT %(most)s
