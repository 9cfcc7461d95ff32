-- Remove a read mark if no row that it covers lacks `read_at` any more, and if it is still the mark that the
-- transaction `marked_by` wrote. The user becomes a doubt, because the process that was to send the last deltas may
-- have died before it sent them.
WITH removed AS (
    DELETE FROM weir_notifications_readmark AS mark
    WHERE user_id = %(user)s AND marked_by = %(marked_by)s::xid8
        AND NOT EXISTS (
            SELECT FROM weir_notifications_notification AS row
            WHERE row.user_id = mark.user_id AND row.read_at IS NULL
                AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid)
        )
    RETURNING user_id
), doubt AS (
    INSERT INTO weir_notifications_doubt (user_id, noted_at) SELECT user_id, clock_timestamp() FROM removed
    ON CONFLICT (user_id) DO UPDATE SET noted_at = excluded.noted_at
)
SELECT count(*) AS removed FROM removed
