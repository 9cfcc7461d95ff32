-- How many flushes wrote deltas of unread numbers to PostgreSQL, and how many rows.
SELECT count(*) AS flushes, coalesce(sum(users), 0) AS rows_written FROM weir_notifications_flushedepoch
WHERE users > 0  -- an epoch that reconciliation refuses has no users
