-- The users whose notifications changed after `after` and at least `settled` seconds ago: those of the oldest changes,
-- about `most` of them. changed_at is the time of the last change, NULL where there is none. Changes of the same moment
-- are returned together.
WITH last AS (
    SELECT max(changed_at) AS changed_at, count(*) AS changes
    FROM (
        SELECT changed_at FROM notifications_notification
        WHERE changed_at > %(after)s
            AND changed_at <= statement_timestamp() - make_interval(secs => %(settled)s::float8)
        ORDER BY changed_at
        LIMIT %(most)s
    ) AS page
)
SELECT last.changed_at, last.changes, array(
    SELECT DISTINCT row.user_id FROM notifications_notification AS row
    WHERE row.changed_at > %(after)s AND row.changed_at <= last.changed_at
) AS users
FROM last
