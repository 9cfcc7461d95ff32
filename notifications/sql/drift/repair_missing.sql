-- Store the drifts of users who had no stored number when the drift was found. Returns the users who still had none.
INSERT INTO notifications_unreadcount (user_id, unread_count, epoch)
SELECT user_id, drift, 0 FROM unnest(%(users)s::user_key[], %(drifts)s::bigint[]) AS wrong(user_id, drift)
ORDER BY user_id
ON CONFLICT (user_id) DO NOTHING
RETURNING user_id
