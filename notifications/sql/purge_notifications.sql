-- Delete a batch of notifications that were read more than `older_than` seconds ago, but not what the e-mails `kept` have
-- told. Rows that other transactions have locked are skipped.
WITH old AS (
    SELECT id FROM weir_notifications_notification
    WHERE read_at < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
        AND (digest_id IS NULL OR digest_id <> ALL (%(kept)s::bigint[]))
    ORDER BY read_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_notifications_notification WHERE id = ANY (array(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
