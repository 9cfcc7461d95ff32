-- Give unread notifications that wait for a digest to users' e-mails, up to the user's `most`: those that are due first,
-- then the oldest. Rows that other transactions have locked are left to a later digest, so that nobody waits. Returns the
-- users for whom there may be more of them.
WITH digest AS MATERIALIZED (
    SELECT user_id, email_id, most
    FROM unnest(%(users)s::user_key[], %(emails)s::bigint[], %(most)s::bigint[]) AS digest(user_id, email_id, most)
), waiting AS MATERIALIZED (
    SELECT row.id, digest.user_id, digest.email_id
    FROM digest
    CROSS JOIN LATERAL (
        SELECT id FROM weir_notifications_notification AS row
        WHERE row.user_id = digest.user_id AND read_at IS NULL AND digest_due_at IS NOT NULL AND digest_id IS NULL
        ORDER BY digest_due_at > statement_timestamp(), id
        LIMIT digest.most
        FOR UPDATE SKIP LOCKED
    ) AS row
), given AS (
    UPDATE weir_notifications_notification AS row SET digest_id = waiting.email_id
    FROM waiting WHERE row.id = waiting.id
)
SELECT digest.user_id
FROM digest
LEFT JOIN (SELECT user_id, count(*) AS rows FROM waiting GROUP BY user_id) AS taken ON taken.user_id = digest.user_id
WHERE digest.most <= coalesce(taken.rows, 0)
