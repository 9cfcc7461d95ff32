-- Return the next slice of the full scan: up to `users` users after `after`, with up to `rows` unread rows. Also return
-- which of them have a stored number that differs from the count of their unread rows. The two also differ while deltas
-- are in Redis, so these users need a closer look. `last_user` is NULL if no users follow the slice.
--
-- A user with more than `rows` unread rows is the last user of a slice, and the only one with rows in it. This user
-- always counts as differing, because the statement does not count the rows to the end; the closer look does.
WITH stored AS MATERIALIZED (
    SELECT user_id, unread_count FROM weir_notifications_unreadcount
    WHERE %(after)s::user_key IS NULL OR user_id > %(after)s::user_key
    ORDER BY user_id
    LIMIT %(users)s
), unread AS MATERIALIZED (
    SELECT user_id, count(*) AS unread
    FROM (
        SELECT user_id FROM weir_notifications_notification
        WHERE read_at IS NULL AND (%(after)s::user_key IS NULL OR user_id > %(after)s::user_key)
        ORDER BY user_id
        LIMIT %(rows)s
    ) AS next_rows
    GROUP BY user_id
    ORDER BY user_id
    LIMIT %(users)s
), cut AS MATERIALIZED (  -- the last user in `unread`, who may have more rows than were read
    SELECT CASE WHEN sum(unread) >= %(rows)s THEN (SELECT user_id FROM unread ORDER BY user_id DESC LIMIT 1) END
        AS user_id
    FROM unread
), bound AS MATERIALIZED (
    SELECT least(
        (SELECT user_id FROM stored ORDER BY user_id OFFSET %(users)s - 1 LIMIT 1),
        (SELECT user_id FROM unread ORDER BY user_id OFFSET %(users)s - 1 LIMIT 1),
        coalesce(
            (
                SELECT unread.user_id FROM unread JOIN cut ON unread.user_id < cut.user_id
                ORDER BY unread.user_id DESC LIMIT 1
            ),
            cut.user_id
        )
    ) AS last_user
    FROM cut
), compared AS (
    SELECT both_sides.user_id, both_sides.differs OR both_sides.user_id = cut.user_id AS differs
    FROM (
        SELECT user_id, coalesce(stored.unread_count, 0) <> coalesce(unread.unread, 0) AS differs
        FROM stored FULL JOIN unread USING (user_id)
    ) AS both_sides
    CROSS JOIN cut CROSS JOIN bound
    WHERE bound.last_user IS NULL OR both_sides.user_id <= bound.last_user
)
SELECT
    bound.last_user,
    array(SELECT user_id FROM compared ORDER BY user_id) AS users,
    array(SELECT user_id FROM compared WHERE differs ORDER BY user_id) AS differing
FROM bound
