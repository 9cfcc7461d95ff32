-- Let these users' unread notifications that are due, and for which a digest had no place, wait for another one as long
-- again as until now, an hour at least. Rows that other transactions have locked are left, so that nobody waits.
WITH due AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = ANY (%(users)s::user_key[]) AND read_at IS NULL AND digest_id IS NULL
        AND digest_due_at <= statement_timestamp()
    FOR UPDATE SKIP LOCKED
)
UPDATE weir_notifications_notification AS row
SET digest_due_at = statement_timestamp() + greatest(statement_timestamp() - row.created_at, '1 hour'::interval)
FROM due WHERE row.id = due.id
