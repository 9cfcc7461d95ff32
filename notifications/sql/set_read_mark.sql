-- Mark all notifications of a user that this statement sees as read, with one row: the read mark.
--
-- The mark covers rows of transactions that the statement's snapshot sees. There are two kinds of rows that the
-- statement sees, but the mark does not cover. The statement changes these directly: rows of this transaction, and rows
-- that were brought from another cluster, which has transaction ids of its own. A later mark covers all rows that an
-- earlier mark covered, because lock_read_marks.sql was executed before this statement, so that its snapshot is later.
WITH moment AS MATERIALIZED (
    SELECT pg_current_snapshot() AS snapshot, pg_current_xact_id() AS own
), found AS MATERIALIZED (  -- unseen changes
    SELECT row.id
    FROM weir_notifications_notification AS row CROSS JOIN moment
    WHERE row.user_id = %(user)s AND row.read_at IS NULL
        AND row.changed_xid >= (SELECT pg_snapshot_xmin(snapshot) FROM moment)
        AND (row.changed_xid = own OR NOT pg_visible_in_snapshot(row.changed_xid, snapshot))
    ORDER BY row.changed_xid
), uncovered AS MATERIALIZED (
    SELECT id FROM weir_notifications_notification
    WHERE id = ANY (ARRAY(SELECT id FROM found)) AND user_id = %(user)s AND read_at IS NULL
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE weir_notifications_notification SET read_at = statement_timestamp(), changed_at = statement_timestamp()
    WHERE id = ANY (ARRAY(SELECT id FROM uncovered))
    RETURNING 1
), mark AS (
    INSERT INTO weir_notifications_readmark AS old (user_id, up_to, snapshot, marked_by, marked_at)
    SELECT
        %(user)s,
        (SELECT coalesce(max(id), 0) FROM weir_notifications_notification WHERE user_id = %(user)s AND read_at IS NULL),
        snapshot, own, statement_timestamp()
    FROM moment
    ON CONFLICT (user_id) DO UPDATE SET
        up_to = greatest(old.up_to, excluded.up_to),
        snapshot = excluded.snapshot,
        marked_by = excluded.marked_by,
        marked_at = excluded.marked_at
)
SELECT count(*) AS changed FROM changed
