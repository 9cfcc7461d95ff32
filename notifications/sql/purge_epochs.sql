-- Delete a batch of rows about epochs that were flushed more than `older_than` seconds ago, the lowest epochs first,
-- but never the row of the highest epoch.
WITH old AS (
    SELECT epoch FROM weir_notifications_flushedepoch
    WHERE flushed_at < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
        AND epoch < (SELECT max(epoch) FROM weir_notifications_flushedepoch)
    ORDER BY epoch
    LIMIT %(batch)s
), gone AS (
    DELETE FROM weir_notifications_flushedepoch WHERE epoch = ANY (array(SELECT epoch FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
