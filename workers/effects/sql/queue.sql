-- Stores an effect. Returns no row if there is already an effect of this kind and key. While another transaction is
-- storing such an effect, the statement waits for that transaction.
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
RETURNING id, created_at, next_attempt_at, expires_at
