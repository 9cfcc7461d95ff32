-- Return what PostgreSQL knows of some users' unread numbers: the stored number and its epoch. If the stored number and
-- Redis' deltas are not trusted, or a read mark covers rows, also return the count of the unread rows, up to
-- `most_counted`.
--
-- Not trusted are
-- - numbers of a PostgreSQL that has forgotten something, until reconciliation has looked at them (the gate);
-- - a Redis with another incarnation than reconciliation trusts: it lost its memory, and its deltas;
-- - a Redis whose open epoch was flushed already: it came back older than it was;
-- - numbers of users with a doubt.
--
-- The rows that a read mark does not cover are found through the index on changed_xid, without reading the covered rows
-- (unseen changes).
--
-- The LIMIT of the subquery leaves out no user. It makes PostgreSQL expect few users when it plans without knowing how
-- many there are, so that it keeps this plan from the sixth call on. Otherwise PostgreSQL would plan every call anew,
-- which takes longer than the rest of the call.
WITH redis AS (
    SELECT
        EXISTS (SELECT FROM weir_notifications_reconciliation WHERE trusted AND incarnation = %(incarnation)s)
            AND weir_timeline_is_same(%(known_generation)s::bigint) AS is_known,
        EXISTS (SELECT FROM weir_notifications_flushedepoch WHERE epoch >= %(open_epoch)s::bigint) AS is_passed
)
SELECT
    asked.user_id,
    coalesce(stored.unread_count, 0) AS unread_count,
    coalesce(stored.epoch, 0) AS epoch,
    redis.is_passed,
    mark.user_id IS NOT NULL AS has_mark,
    CASE WHEN NOT redis.is_known OR redis.is_passed OR mark.user_id IS NOT NULL
        OR EXISTS (SELECT FROM weir_notifications_doubt AS doubt WHERE doubt.user_id = asked.user_id)
    THEN (
        SELECT count(*) FROM (
            SELECT FROM weir_notifications_notification AS row
            WHERE row.user_id = asked.user_id AND row.read_at IS NULL
                AND row.changed_xid >= CASE
                    WHEN pg_snapshot_xmin(mark.snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
                    THEN pg_snapshot_xmin(mark.snapshot) ELSE '0'::xid8
                END
                AND weir_notifications_covers(mark.up_to, mark.marked_by, mark.snapshot, row.id, row.changed_xid) IS NOT TRUE
            ORDER BY row.changed_xid
            LIMIT %(most_counted)s
        ) AS unread
    ) END AS counted
FROM (
    SELECT user_id FROM unnest(%(users)s::user_key[]) AS one(user_id) LIMIT cardinality(%(users)s::user_key[])
) AS asked
CROSS JOIN redis
LEFT JOIN weir_notifications_unreadcount AS stored ON stored.user_id = asked.user_id
LEFT JOIN weir_notifications_readmark AS mark ON mark.user_id = asked.user_id
