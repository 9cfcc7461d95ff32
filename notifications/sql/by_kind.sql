-- How many of a user's notifications of each kind are unread: of the `most_counted` that became unread last.
--
-- Beside a read mark, those that it does not cover are found without the others (unseen changes). The index has them in
-- this order, so no more than `most_counted` are read. Only the table has their kind, so PostgreSQL could read all that
-- the user has first, and sort them, where it expects to need most of them (unknown limit).
SELECT kind, count(*) AS unread
FROM (
    SELECT kind
    FROM weir_notifications_uncovered(%(user)s::user_key)
    ORDER BY changed_xid DESC
    LIMIT (SELECT %(most_counted)s::bigint)
) AS newest
GROUP BY kind
