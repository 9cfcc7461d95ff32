-- Makes up to `batch` effects with ids above `after` unknown, because PostgreSQL has forgotten whether they happened.
-- These are effects that a worker holds, that were due at `until`, that wait after an attempt, or that are unknown
-- since before `until`. In the lost time, an operator may have corrected an effect that waits after an attempt, so that
-- it was due; and may have repeated an unknown effect.
-- Returns how many became unknown, and the last id. Effects keep their claim tokens, so that a worker that has begun
-- one can still record what it learns.
WITH picked AS MATERIALIZED (
    SELECT id
    FROM {table}
    WHERE id > %(after)s AND (
        state IN ('claimed', '{begun}') OR (state = 'pending' AND (
            next_attempt_at <= %(until)s OR attempts > 0 OR next_attempt_at >= '8000-01-01'  -- HANDED_OVER in effects/names.py
        ))
        OR (state = 'unknown' AND {begun_at} < %(until)s)
    )
    ORDER BY id
    LIMIT %(batch)s
    FOR UPDATE
), made AS (
    UPDATE {table}
    SET state = 'unknown',
        claim_token = coalesce(claim_token, gen_random_uuid()),
        claimed_until = NULL,
        {begun_at} = clock_timestamp(),
        ended_at = clock_timestamp(),
        phase = 'forgotten',
        {own_at_loss}
        last_reply = %(reply)s || CASE WHEN state = 'unknown' THEN ' Before that: ' || last_reply ELSE '' END,
        ask_until = NULL
    WHERE id = ANY(ARRAY(SELECT id FROM picked))
    RETURNING id
)
SELECT count(*)::int AS unknown, coalesce(max(id), 0) AS last FROM made
