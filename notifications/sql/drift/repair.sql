-- Add drifts to stored numbers that have not changed since the drift was found. Returns the users whose numbers had
-- not. A second reconciler that found the same drift finds the number changed, and adds nothing.
WITH wrong AS (
    SELECT * FROM unnest(
        %(users)s::user_key[], %(drifts)s::bigint[], %(unread_counts)s::bigint[], %(epochs)s::bigint[]
    ) AS found(user_id, drift, unread_count, epoch)
), unchanged AS (
    SELECT stored.user_id, wrong.drift
    FROM notifications_unreadcount AS stored JOIN wrong ON wrong.user_id = stored.user_id
    WHERE stored.unread_count = wrong.unread_count AND stored.epoch = wrong.epoch
    ORDER BY stored.user_id
    FOR UPDATE OF stored
)
UPDATE notifications_unreadcount AS stored SET unread_count = stored.unread_count + unchanged.drift
FROM unchanged WHERE stored.user_id = unchanged.user_id
RETURNING stored.user_id
