-- Delete one short batch of notifications that were read more than `older_than` seconds ago, and of the notes about
-- epochs that were flushed a day ago, but never that about the highest.
WITH old AS (
    SELECT id FROM notifications_notification
    WHERE read_at < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
    ORDER BY read_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM notifications_notification WHERE id = ANY (array(SELECT id FROM old)) RETURNING 1
), epochs AS (
    DELETE FROM notifications_flushedepoch
    WHERE flushed_at < statement_timestamp() - interval '1 day'
        AND epoch < (SELECT max(epoch) FROM notifications_flushedepoch)
)
SELECT count(*) AS deleted FROM gone
