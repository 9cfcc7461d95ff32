-- Return the stored numbers of these users; users without a stored number are left out (row look-up).
SELECT asked.user_id, stored.unread_count, stored.epoch
FROM unnest(%(users)s::user_key[]) AS asked(user_id)
CROSS JOIN LATERAL (
    SELECT unread_count, epoch FROM weir_notifications_unreadcount WHERE user_id = asked.user_id OFFSET 0
) AS stored
