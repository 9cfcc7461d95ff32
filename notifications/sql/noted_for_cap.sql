-- Return the users of the `most` oldest rows of excess, each user once.
SELECT user_id FROM (SELECT id, user_id FROM weir_notifications_excess ORDER BY id LIMIT %(most)s) AS note
GROUP BY user_id
ORDER BY min(id)
