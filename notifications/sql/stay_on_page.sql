-- Let no e-mail tell a user's unread notifications of this kind; or, if `kind` is NULL, no digest those of any kind: a
-- notification with an e-mail of its own was due when it was written. What was told already (no due time) stays told.
-- Rows are locked in the order of their ids, as in mark_read.sql.
WITH waiting AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL AND digest_due_at IS NOT NULL
        AND (kind = %(kind)s::text OR %(kind)s::text IS NULL AND digest_due_at > created_at)
    ORDER BY id
    FOR UPDATE
)
UPDATE weir_notifications_notification AS row SET digest_due_at = NULL, digest_id = NULL
FROM waiting WHERE row.id = waiting.id
