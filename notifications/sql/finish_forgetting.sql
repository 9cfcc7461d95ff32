-- Forget users who have no notifications, and no deltas in Redis: remove their stored numbers and their rows in
-- forgottenuser. The snapshot sees all rows that transactions before `until_xid` wrote, because each of them has ended.
-- A stored number is removed only if it is 0, and if no live epoch is in it: without the row, readers would add the
-- delta of this epoch once more. A user with another number is left to reconciliation, and is looked at again later.
WITH done AS (
    SELECT forgotten.user_id
    FROM weir_notifications_forgottenuser AS forgotten
    LEFT JOIN weir_notifications_unreadcount AS stored ON stored.user_id = forgotten.user_id
    LEFT JOIN LATERAL (  -- (few expected, row look-up)
        SELECT true AS found FROM weir_notifications_notification WHERE user_id = forgotten.user_id LIMIT 1
    ) AS row ON true
    WHERE forgotten.user_id = ANY (%(users)s::user_key[])
        AND forgotten.until_xid <= pg_snapshot_xmin(pg_current_snapshot())
        AND coalesce(stored.unread_count, 0) = 0 AND coalesce(stored.epoch, 0) < %(oldest_live)s::bigint
        AND row.found IS NULL
        AND NOT EXISTS (SELECT FROM weir_notifications_doubt AS doubt WHERE doubt.user_id = forgotten.user_id)
    ORDER BY forgotten.user_id
    FOR UPDATE OF forgotten
), numbers AS (
    DELETE FROM weir_notifications_unreadcount AS stored USING done
    WHERE stored.user_id = done.user_id AND stored.unread_count = 0 AND stored.epoch < %(oldest_live)s::bigint
), notes AS (
    DELETE FROM weir_notifications_forgottenuser AS forgotten USING done WHERE forgotten.user_id = done.user_id
    RETURNING 1
)
SELECT count(*) AS forgotten FROM notes
