-- Mark all unread notifications of a user as read, if they are `most` or fewer. `changed` is null, and nothing has
-- changed, if they are more. Rows that a read mark covers are not read for it (unseen changes). Rows are locked as in
-- mark_read.sql.
WITH found AS MATERIALIZED (
    SELECT id
    FROM weir_notifications_notification AS row
    LEFT JOIN weir_notifications_readmark AS mark ON mark.user_id = %(user)s
    WHERE row.user_id = %(user)s AND row.read_at IS NULL
        AND row.changed_xid >= (
            SELECT coalesce(max(pg_snapshot_xmin(snapshot)), '0'::xid8)
            FROM weir_notifications_readmark
            WHERE user_id = %(user)s AND pg_snapshot_xmin(snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
        )
        AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid) IS NOT TRUE
    ORDER BY row.changed_xid
    LIMIT %(most)s + 1
), unread AS (
    SELECT id FROM weir_notifications_notification
    WHERE id = ANY (ARRAY(SELECT id FROM found)) AND user_id = %(user)s AND read_at IS NULL
        AND (SELECT count(*) FROM found) <= %(most)s
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE weir_notifications_notification AS row SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    FROM unread WHERE row.id = unread.id
    RETURNING 1
)
SELECT CASE WHEN (SELECT count(*) FROM found) <= %(most)s THEN (SELECT count(*) FROM changed) END AS changed
