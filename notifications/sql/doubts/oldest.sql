-- The oldest doubts.
SELECT user_id, noted_at FROM notifications_doubt ORDER BY noted_at LIMIT %(most)s
