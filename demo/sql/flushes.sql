-- How often deltas of unread numbers were brought to PostgreSQL, and how many rows that wrote.
SELECT count(*) AS flushes, coalesce(sum(users), 0) AS rows_written FROM notifications_flushedepoch
WHERE users > 0  -- epochs that reconciliation refuses are noted without users
