-- Set `read_at` of up to `batch` rows that a read mark covers, with ids above `after`. Returns how many were changed,
-- and their last id (NULL if there are none). The rows are read in the order of their index. With a known limit,
-- PostgreSQL might expect that few rows are covered, and read and sort all rows for each batch (unknown limit).
-- Rows that other transactions have locked are left to a later batch. If a row was marked as unread meanwhile, a later
-- transaction has changed it: the mark does not cover the row any more, and it stays unread.
WITH covered AS (
    SELECT row.id, mark.marked_at
    FROM weir_notifications_readmark AS mark
    JOIN weir_notifications_notification AS row ON row.user_id = mark.user_id
    WHERE mark.user_id = %(user)s AND row.user_id = %(user)s AND row.read_at IS NULL
        AND row.id > %(after)s
        AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
    ORDER BY row.id
    LIMIT (SELECT %(batch)s::bigint)
    FOR UPDATE OF row SKIP LOCKED
), changed AS (
    UPDATE weir_notifications_notification AS row SET read_at = covered.marked_at, changed_at = statement_timestamp()
    FROM covered WHERE row.id = covered.id
    RETURNING row.id
)
SELECT count(*) AS changed, max(id) AS last_id FROM changed
