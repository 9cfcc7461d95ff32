-- Let these users' unread notifications that are due wait for another digest: for half of `at_most` to all of it, by
-- chance, so that they do not come back together; or, if that is NULL, as long again as until now, an hour at least. Rows
-- that other transactions have locked are left, so that nobody waits.
WITH due AS (
    SELECT id FROM weir_notifications_notification
    WHERE user_id = ANY (%(users)s::user_key[]) AND read_at IS NULL AND digest_id IS NULL
        AND digest_due_at <= statement_timestamp()
    FOR UPDATE SKIP LOCKED
)
UPDATE weir_notifications_notification AS row
SET digest_due_at = statement_timestamp() + coalesce(
    %(at_most)s::interval * (1 + random()) / 2, greatest(statement_timestamp() - row.created_at, '1 hour'::interval)
)
FROM due WHERE row.id = due.id
