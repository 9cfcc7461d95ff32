-- Makes up to `batch` e-mails with ids above `after` unknown, because PostgreSQL has forgotten whether they were sent.
-- These are e-mails that a mailer holds, that were due at `until`, that wait after an attempt, or that are unknown
-- since before `until`. In the lost time, an operator may have corrected an e-mail that waits after an attempt, so that
-- it was due; and may have resent an unknown e-mail.
-- Returns how many became unknown, and the last id. E-mails keep their claim tokens, so that a mailer that is sending
-- one can still record what it learns.
WITH picked AS MATERIALIZED (
    SELECT id
    FROM weir_mail_email
    WHERE id > %(after)s AND (
        state IN ('claimed', 'sending') OR (state = 'pending' AND (next_attempt_at <= %(until)s OR attempts > 0))
        OR (state = 'unknown' AND sending_since < %(until)s)
    )
    ORDER BY id
    LIMIT %(batch)s
    FOR UPDATE
), made AS (
    UPDATE weir_mail_email
    SET state = 'unknown',
        claim_token = coalesce(claim_token, gen_random_uuid()),
        claimed_until = NULL,
        sending_since = clock_timestamp(),
        ended_at = clock_timestamp(),
        phase = 'forgotten',
        relay = '',
        last_reply = %(reply)s || CASE WHEN state = 'unknown' THEN ' Before that: ' || last_reply ELSE '' END,
        ask_until = NULL
    WHERE id = ANY(ARRAY(SELECT id FROM picked))
    RETURNING id
)
SELECT count(*)::int AS unknown, coalesce(max(id), 0) AS last FROM made
