-- Return those of these users who still have an unread notification that a digest is to tell now. One row of each is
-- locked, so that the same transaction can give it to an e-mail; rows that other transactions have locked are left. Rows
-- that a read mark covers are read already.
SELECT asked.user_id
FROM unnest(%(users)s::user_key[]) AS asked(user_id)
CROSS JOIN LATERAL (
    SELECT id FROM weir_notifications_notification AS row
    WHERE row.user_id = asked.user_id AND read_at IS NULL AND digest_id IS NULL
        AND digest_due_at <= statement_timestamp()
        AND NOT EXISTS (
            SELECT FROM weir_notifications_readmark AS mark
            WHERE mark.user_id = asked.user_id
                AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
        )
    ORDER BY id
    LIMIT 1
    FOR UPDATE OF row SKIP LOCKED
) AS due
