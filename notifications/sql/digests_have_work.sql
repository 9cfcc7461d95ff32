-- Return whether a digest is due (first row, docs/explanation/sql.md).
SELECT (
    SELECT id FROM weir_notifications_notification
    WHERE read_at IS NULL AND digest_id IS NULL
        AND digest_due_at BETWEEN '-infinity' AND statement_timestamp()  -- few expected
    ORDER BY digest_due_at
    LIMIT 1
) IS NOT NULL AS has_work
