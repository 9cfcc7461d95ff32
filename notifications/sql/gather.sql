-- Give unread notifications that wait for a digest to users' e-mails, up to `most` for each user: the oldest. Rows that
-- other transactions have locked are left to a later digest, so that nobody waits.
WITH waiting AS (
    SELECT row.id, digest.email_id
    FROM unnest(%(users)s::user_key[], %(emails)s::bigint[]) AS digest(user_id, email_id)
    CROSS JOIN LATERAL (
        SELECT id FROM weir_notifications_notification AS row
        WHERE row.user_id = digest.user_id AND read_at IS NULL AND digest_due_at IS NOT NULL AND digest_id IS NULL
        ORDER BY id
        LIMIT %(most)s
        FOR UPDATE SKIP LOCKED
    ) AS row
)
UPDATE weir_notifications_notification AS row SET digest_id = waiting.email_id
FROM waiting WHERE row.id = waiting.id
