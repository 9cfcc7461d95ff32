-- Let no e-mail tell a user's unread notifications of this kind, or of any if `kind` is NULL; if `digests_only`, let only
-- digests not tell them: a notification with an e-mail of its own is due since it was written (release.sql). What was
-- told already (no due time) stays told.
-- Rows are locked in the order of their ids, as in mark_read.sql.
WITH waiting AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = %(user)s AND read_at IS NULL AND digest_due_at IS NOT NULL
        AND (kind = %(kind)s::text OR %(kind)s::text IS NULL)
        AND (digest_due_at > created_at OR NOT %(digests_only)s::boolean)
    ORDER BY id
    FOR UPDATE
)
UPDATE weir_notifications_notification AS row SET digest_due_at = NULL, digest_id = NULL
FROM waiting WHERE row.id = waiting.id
