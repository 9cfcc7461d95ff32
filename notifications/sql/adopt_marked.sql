-- Look at the next `batch` notifications with ids after `after` and below `below`. In unread ones, set the id of the
-- transaction that wrote them, which means nothing in this cluster, to 0. Returns how many were looked at (`changed`),
-- and the last id.
WITH page AS MATERIALIZED (
    SELECT id, read_at, changed_xid
    FROM weir_notifications_notification
    WHERE id > %(after)s AND id < %(below)s
    ORDER BY id
    LIMIT %(batch)s
), adopted AS (
    UPDATE weir_notifications_notification AS row
    SET changed_xid = '0'
    WHERE row.id = ANY(ARRAY(SELECT id FROM page WHERE read_at IS NULL AND changed_xid <> '0')) AND row.read_at IS NULL
)
SELECT count(*) AS changed, max(id) AS last_id FROM page
