-- Delete a batch of notifications that have expired. Rows that other transactions have locked are skipped. Returns, for
-- each user, how many were deleted, and how many of these had no `read_at`.
WITH expired AS (
    SELECT id FROM weir_notifications_notification
    WHERE expires_at BETWEEN '-infinity' AND statement_timestamp()  -- few expected
    ORDER BY expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_notifications_notification WHERE id = ANY (array(SELECT id FROM expired)) RETURNING user_id, read_at
)
SELECT user_id, count(*) AS deleted, count(*) FILTER (WHERE read_at IS NULL) AS unread FROM gone GROUP BY user_id
