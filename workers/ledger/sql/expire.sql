-- Ends up to %(batch)s waiting or claimed effects that have expired. Promises: an effect that may have happened becomes
-- `unknown`, not `expired`, because the other side is not asked about it any more. To ask about an effect of the
-- `probed` kinds only reads, so this goes on. The last reply is kept. A worker that has claimed an expired effect learns
-- that it has expired when it tries to begin.
--
-- over: a batch; rows that other transactions hold locked are left for the next call
WITH over AS MATERIALIZED (
    SELECT id
    FROM {table}
    WHERE
        state IN ('pending', 'claimed')
        AND expires_at <= statement_timestamp()
        AND (ask_until IS NULL OR kind <> ALL(%(probed)s::text[]))
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    ORDER BY expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE {table}
SET
    state = CASE WHEN ask_until IS NULL THEN 'expired' ELSE 'unknown' END,
    claim_token = CASE WHEN ask_until IS NOT NULL THEN gen_random_uuid() END,
    claimed_until = NULL,
    {begun_at} = CASE WHEN ask_until IS NOT NULL THEN clock_timestamp() END,
    ended_at = clock_timestamp(),
    phase = CASE WHEN ask_until IS NULL THEN phase ELSE 'begun' END,
    last_reply = CASE WHEN ask_until IS NULL THEN last_reply ELSE
        'It has expired: ' || {other_side} || ' is not asked any more what became of it. ' || last_reply
    END
FROM over
WHERE {table}.id = over.id
RETURNING {table}.id, state, phase, last_reply, claimed_by, correlation_id
