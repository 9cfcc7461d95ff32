-- Mark a user's notifications with these ids as unread, if they are read, because they have a `read_at` or because a
-- read mark covers them. Otherwise like mark_read.sql. Returns how many were read, and how many of these had a
-- `read_at`. The user has seen them, so no digest tells them, or takes back that it told them.
WITH read AS (
    SELECT id, read_at FROM weir_notifications_notification AS row
    WHERE user_id = %(user)s AND id = ANY (%(ids)s::bigint[])
        AND (
            read_at IS NOT NULL
            OR EXISTS (
                SELECT FROM weir_notifications_readmark AS mark
                WHERE mark.user_id = %(user)s
                    AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
            )
        )
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE weir_notifications_notification AS row
    SET read_at = NULL, changed_at = statement_timestamp(), changed_xid = pg_current_xact_id(),
        digest_due_at = NULL, digest_id = NULL
    FROM read WHERE row.id = read.id
    RETURNING read.read_at
)
SELECT count(*) AS changed, count(read_at) AS counted FROM changed
