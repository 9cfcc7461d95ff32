-- Return how many of a user's notifications of each kind are unread. Counted are the `most_counted` that became unread
-- last.
--
-- If the user has a read mark, the rows that it does not cover are found without reading the others (unseen changes).
-- The index has these rows in this order, so at most `most_counted` are read. Their kind is only in the table. With a
-- known limit, PostgreSQL might expect to need most rows, and first read and sort all rows of the user (unknown limit).
SELECT kind, count(*) AS unread
FROM (
    SELECT kind
    FROM weir_notifications_uncovered(%(user)s::user_key)
    ORDER BY changed_xid DESC
    LIMIT (SELECT %(most_counted)s::bigint)
) AS newest
GROUP BY kind
