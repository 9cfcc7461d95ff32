-- Make unread again what e-mails have told (no due time) that were certainly not accepted; and, if they are over, let
-- them tell nothing any more: what was not read waits for another digest as long again as until now, an hour at least.
-- What the user has read in the meantime stays read. What an e-mail of its own tells (`by_digest` is false) is due since it
-- was written. Returns, for each user, how many are unread again. Rows are locked in the order of their ids.
WITH these AS (
    SELECT id, read_at, digest_due_at IS NULL AND read_at IS NOT NULL AS was_told
    FROM weir_notifications_notification
    WHERE digest_id = ANY (%(emails)s::bigint[])
        AND (%(is_over)s::boolean OR digest_due_at IS NULL AND read_at IS NOT NULL)
    ORDER BY id
    FOR UPDATE
), released AS (
    UPDATE weir_notifications_notification AS row
    SET
        read_at = CASE WHEN NOT was_told THEN row.read_at END,
        changed_at = CASE WHEN was_told THEN statement_timestamp() ELSE row.changed_at END,
        changed_xid = CASE WHEN was_told THEN pg_current_xact_id() ELSE row.changed_xid END,
        digest_id = CASE WHEN NOT %(is_over)s::boolean THEN row.digest_id END,
        digest_due_at = CASE
            WHEN NOT was_told AND row.read_at IS NOT NULL THEN NULL
            WHEN %(is_over)s::boolean
            THEN statement_timestamp() + greatest(statement_timestamp() - row.created_at, '1 hour'::interval)
            WHEN %(by_digest)s::boolean THEN statement_timestamp()
            ELSE row.created_at
        END
    FROM these
    WHERE row.id = these.id
    RETURNING row.user_id, was_told
)
SELECT user_id, count(*) FILTER (WHERE was_told) AS unread FROM released GROUP BY user_id
