-- How many of a user's notifications of each kind are unread: of the `most_counted` that became unread last.
--
-- Beside a read mark, those that it does not cover are found without the others (unseen changes). The index has them in
-- this order, so no more than `most_counted` are read. Only the table has their kind, so PostgreSQL could read all that
-- the user has first, and sort them, where it expects to need most of them (unknown limit).
SELECT kind, count(*) AS unread
FROM (
    SELECT row.kind
    FROM weir_notifications_notification AS row
    LEFT JOIN weir_notifications_readmark AS mark ON mark.user_id = %(user)s
    WHERE row.user_id = %(user)s AND row.read_at IS NULL
        AND row.changed_xid >= (
            SELECT coalesce(max(pg_snapshot_xmin(snapshot)), '0'::xid8)
            FROM weir_notifications_readmark
            WHERE user_id = %(user)s AND pg_snapshot_xmin(snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid) IS NOT TRUE
    ORDER BY row.changed_xid DESC
    LIMIT (SELECT %(most_counted)s::bigint)
) AS newest
GROUP BY kind
