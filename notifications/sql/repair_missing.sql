-- Store the drift of users who had no stored number when it was found; returns who still has none.
INSERT INTO notifications_unreadcount (user_id, unread_count, epoch)
SELECT user_id, drift, 0 FROM unnest(%(users)s::bigint[], %(drifts)s::bigint[]) AS wrong(user_id, drift)
ORDER BY user_id
ON CONFLICT (user_id) DO NOTHING
RETURNING user_id
