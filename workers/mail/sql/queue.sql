-- Stores an e-mail, and its rendering if there is one. Returns no row if there is already an e-mail of this kind and
-- key. While another transaction is storing such an e-mail, the statement waits for that transaction. A mailer finds
-- both rows, or none.
-- does_older_wait: whether an older e-mail of this kind and priority is due; NULL if the statement is not alone in its
--                  transaction (`believed_for` is NULL), or has waited, so that its snapshot is old
WITH queued AS (
    INSERT INTO weir_mail_email (
        kind, key, recipient, recipient_name, language, context, priority, next_attempt_at, expires_at,
        message_id, envelope_sender, is_id_shared,
        renderings, subject, content_hash, content_size,
        state, attempts, claimed_by, phase, last_reply, correlation_id, traceparent
    )
    VALUES (
        %(kind)s, %(key)s, %(recipient)s, %(recipient_name)s, %(language)s, %(context)s::text::jsonb, %(priority)s,
        COALESCE(%(not_before)s, statement_timestamp()),
        COALESCE(%(expires_at)s::timestamptz, statement_timestamp() + %(expires_after)s::interval),
        %(message_id)s, %(envelope_sender)s, %(is_id_shared)s,
        %(renderings)s, %(subject)s, %(content_hash)s, %(content_size)s,
        'pending', 0, '', '', '', %(correlation_id)s, %(traceparent)s
    )
    ON CONFLICT (kind, key) DO NOTHING
    RETURNING id, created_at, next_attempt_at, expires_at
), rendered AS (
    INSERT INTO weir_mail_rendering (email_id, content)
    SELECT id, %(content)s FROM queued WHERE %(content)s::bytea IS NOT NULL
)
SELECT
    id, created_at, next_attempt_at, expires_at,
    CASE WHEN clock_timestamp() < statement_timestamp() + %(believed_for)s::interval THEN (
        SELECT id FROM weir_mail_email
        WHERE
            state = 'pending' AND kind = %(kind)s AND priority = %(priority)s
            AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at, id
        LIMIT 1
    ) IS NOT NULL END AS does_older_wait  -- first row
FROM queued
