-- The users of the oldest notes, each once.
SELECT user_id FROM (SELECT id, user_id FROM weir_notifications_excess ORDER BY id LIMIT %(most)s) AS note
GROUP BY user_id
ORDER BY min(id)
