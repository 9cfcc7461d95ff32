-- Return the `most` oldest read marks.
SELECT user_id, marked_by::text AS marked_by FROM weir_notifications_readmark ORDER BY marked_at LIMIT %(most)s
