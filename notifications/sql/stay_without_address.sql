-- Let no digest tell what these users, who have no address, have not read until now. Rows that other transactions have
-- locked are left to the next call, so that nobody waits.
WITH waiting AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = ANY (%(users)s::user_key[]) AND read_at IS NULL AND digest_due_at IS NOT NULL AND digest_id IS NULL
    ORDER BY id
    FOR UPDATE SKIP LOCKED
)
UPDATE weir_notifications_notification AS row SET digest_due_at = NULL FROM waiting WHERE row.id = waiting.id
