-- Mark these notifications of a user as unread, where they are read. Like mark_read.sql otherwise.
WITH read AS (
    SELECT id FROM notifications_notification
    WHERE user_id = %(user)s AND read_at IS NOT NULL AND id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR UPDATE
), changed AS (
    UPDATE notifications_notification AS row SET read_at = NULL, changed_at = statement_timestamp()
    FROM read WHERE row.id = read.id
    RETURNING 1
)
SELECT count(*) AS changed FROM changed
