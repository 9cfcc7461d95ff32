-- Return whether there is anything to delete: a notification has expired, or a user is noted who had more unread
-- notifications than the cap (first row, docs/explanation/sql.md).
SELECT (
        SELECT id FROM weir_notifications_notification
        WHERE expires_at BETWEEN '-infinity' AND statement_timestamp()
        ORDER BY expires_at
        LIMIT 1
    ) IS NOT NULL
    OR EXISTS (SELECT FROM weir_notifications_excess) AS has_work
