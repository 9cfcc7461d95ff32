-- Return a page of the users who are to be forgotten, in the order of their keys, and whether they have notifications
-- that delete_forgotten.sql deletes (few expected, row look-up).
SELECT forgotten.user_id, old.has_rows
FROM weir_notifications_forgottenuser AS forgotten
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM weir_notifications_notification AS row
        WHERE row.user_id = forgotten.user_id AND (
            forgotten.until_xid IS NULL OR row.changed_xid < forgotten.until_xid
            OR row.created_at < forgotten.forgotten_at
        )
    ) AS has_rows
) AS old
WHERE %(after)s::user_key IS NULL OR forgotten.user_id > %(after)s::user_key
ORDER BY forgotten.user_id
LIMIT %(most)s
