-- Stores an effect. Returns no row if there is already an effect of this kind and key. While another transaction is
-- storing such an effect, the statement waits for that transaction.
-- does_older_wait: whether an older effect of this kind and priority is due; NULL if the statement is not alone in its
--                  transaction (`believed_for` is NULL), or has waited, so that its snapshot is old
INSERT INTO weir_effects_effect (
    kind, key, context, priority, next_attempt_at, expires_at, idempotency_key,
    state, attempts, claimed_by, phase, last_reply, correlation_id, traceparent, on_done, user_key
)
VALUES (
    %(kind)s, %(key)s, %(context)s::text::jsonb, %(priority)s, COALESCE(%(not_before)s, statement_timestamp()),
    COALESCE(%(expires_at)s::timestamptz, statement_timestamp() + %(expires_after)s::interval), %(idempotency_key)s,
    'pending', 0, '', '', '', %(correlation_id)s, %(traceparent)s, %(on_done)s, %(user_key)s
)
ON CONFLICT (kind, key) DO NOTHING
RETURNING
    id, created_at, next_attempt_at, expires_at,
    CASE WHEN clock_timestamp() < statement_timestamp() + %(believed_for)s::interval THEN (
        SELECT id FROM weir_effects_effect
        WHERE
            state = 'pending' AND kind = %(kind)s AND priority = %(priority)s
            AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at, id
        LIMIT 1
    ) IS NOT NULL END AS does_older_wait  -- first row
