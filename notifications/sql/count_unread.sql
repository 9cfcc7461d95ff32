-- Return, for each of these users, the count of rows without `read_at`.
SELECT
    asked.user_id,
    (
        SELECT count(*) FROM weir_notifications_notification AS row
        WHERE row.user_id = asked.user_id AND row.read_at IS NULL
    ) AS rows
FROM unnest(%(users)s::user_key[]) AS asked(user_id)
