-- The newest unread notifications of a user that no read mark covers, before the id `before`. They are found
-- without the others (unseen changes). Where the mark has gone meanwhile, these are all unread ones.
WITH uncovered AS MATERIALIZED (
    SELECT row.id
    FROM weir_notifications_notification AS row
    LEFT JOIN weir_notifications_readmark AS mark ON mark.user_id = %(user)s
    WHERE row.user_id = %(user)s AND row.read_at IS NULL
        AND row.changed_xid >= (
            SELECT coalesce(max(pg_snapshot_xmin(snapshot)), '0'::xid8)
            FROM weir_notifications_readmark
            WHERE user_id = %(user)s AND pg_snapshot_xmin(snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid) IS NOT TRUE
)
SELECT id FROM uncovered WHERE id < coalesce(%(before)s::bigint, 9223372036854775807) ORDER BY id DESC LIMIT %(limit)s
