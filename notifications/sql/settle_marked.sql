-- Set `read_at` of up to `batch` rows that a read mark covers, with ids above `after`. Returns how many were changed,
-- and the last id; null if there are none. They are read in the order of their index. Without that, PostgreSQL would
-- read and sort all rows for each batch if it expects that only a few are covered (unknown limit). Rows that others
-- hold locked are left to a later batch. A row that became unread meanwhile was changed by a later transaction: it is
-- not covered any more, and stays as it is.
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
