-- Delete up to `batch` notifications of a forgotten user, with ids above `after`, if they were written before the
-- user's deletion or at the same time. Notifications of later transactions belong to a user who came back. Returns how
-- many were deleted, how many of these had no `read_at`, and their last id (NULL if there are none). Without `after`,
-- each batch of a transaction would go through the index entries of all batches before it.
WITH these AS (
    SELECT row.id
    FROM weir_notifications_notification AS row
    JOIN weir_notifications_forgottenuser AS forgotten ON forgotten.user_id = row.user_id
    WHERE row.user_id = %(user)s AND row.id > %(after)s::bigint AND (
        forgotten.until_xid IS NULL OR row.changed_xid < forgotten.until_xid
        OR row.created_at < forgotten.forgotten_at
    )
    ORDER BY row.id
    LIMIT %(batch)s
    FOR UPDATE OF row
), gone AS (
    DELETE FROM weir_notifications_notification WHERE id = ANY (ARRAY(SELECT id FROM these)) RETURNING id, read_at
)
SELECT count(*) AS deleted, count(*) FILTER (WHERE read_at IS NULL) AS unread, max(id) AS last_id FROM gone
