-- Whether there is anything to expire: a notification's time is over, or a user is noted who had more than the cap. First
-- row (docs/explanation/sql.md).
SELECT (
        SELECT id FROM weir_notifications_notification
        WHERE expires_at BETWEEN '-infinity' AND statement_timestamp()
        ORDER BY expires_at
        LIMIT 1
    ) IS NOT NULL
    OR EXISTS (SELECT FROM weir_notifications_excess) AS has_work
