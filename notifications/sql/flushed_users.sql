-- Return which of these users have a stored number with an epoch after `epoch` (row look-up).
SELECT asked.user_id
FROM unnest(%(users)s::user_key[]) AS asked(user_id)
CROSS JOIN LATERAL (
    SELECT epoch FROM weir_notifications_unreadcount WHERE user_id = asked.user_id OFFSET 0
) AS stored
WHERE stored.epoch > %(epoch)s::bigint
