-- Return the state of PostgreSQL's part of unread numbers as a text, which differs after each change of this part:
-- which Redis is trusted, how many numbers were repaired, and whose rows are counted. NULL if polls may not compare
-- numbers, because numbers are counted from the rows, or because more than `most` users have a doubt or a read mark
-- (index order).
WITH doubts AS MATERIALIZED (
    SELECT user_id, noted_at FROM weir_notifications_doubt ORDER BY noted_at, user_id LIMIT %(most)s + 1
), marks AS MATERIALIZED (
    SELECT user_id, marked_by FROM weir_notifications_readmark ORDER BY marked_at LIMIT %(most)s + 1
)
SELECT CASE
    WHEN trusted AND weir_timeline_is_same(%(known_generation)s::bigint)
        AND (SELECT count(*) FROM doubts) <= %(most)s AND (SELECT count(*) FROM marks) <= %(most)s
    THEN concat_ws(
        ' ', incarnation, repaired_users,
        (SELECT md5(string_agg(concat(user_id, ' ', extract(epoch FROM noted_at)), ' ' ORDER BY user_id)) FROM doubts),
        (SELECT md5(string_agg(concat(user_id, ' ', marked_by), ' ' ORDER BY user_id)) FROM marks)
    )
END AS state
FROM weir_notifications_reconciliation WHERE id = 1
