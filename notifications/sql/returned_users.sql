-- Remove the rows in forgottenuser about users who came back: they have only new notifications, and no transaction can
-- add old ones any more. Their numbers, and their deltas in Redis, then also belong to the new users (few expected, row
-- look-up).
WITH returned AS (
    SELECT forgotten.user_id
    FROM weir_notifications_forgottenuser AS forgotten
    CROSS JOIN LATERAL (SELECT FROM weir_notifications_notification WHERE user_id = forgotten.user_id LIMIT 1) AS row
    LEFT JOIN LATERAL (
        SELECT true AS found FROM weir_notifications_notification
        WHERE user_id = forgotten.user_id
            AND (changed_xid < forgotten.until_xid OR created_at < forgotten.forgotten_at)
        LIMIT 1
    ) AS old ON true
    WHERE forgotten.user_id = ANY (%(users)s::user_key[])
        AND forgotten.until_xid <= pg_snapshot_xmin(pg_current_snapshot())
        AND old.found IS NULL
    ORDER BY forgotten.user_id
    FOR UPDATE OF forgotten
)
DELETE FROM weir_notifications_forgottenuser AS forgotten USING returned WHERE forgotten.user_id = returned.user_id
