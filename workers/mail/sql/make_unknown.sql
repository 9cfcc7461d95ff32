-- Make up to `batch` e-mails unknown, of those with ids above `after`, that were due at `until`, wait after an attempt,
-- or are held by a mailer: PostgreSQL has forgotten whether they were sent. In the lost time, one that waits may have
-- been corrected, and have been due; an unknown one may have been sent again.
-- Returns how many, and the last id. A mailer that is sending an e-mail keeps its token, and records what it learns.
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
