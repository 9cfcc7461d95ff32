-- Ends up to %(batch)s waiting or claimed e-mails that have expired. Promises: an e-mail that may have been accepted
-- becomes `unknown`, not `expired`, because its relay is not asked about it any more. The last reply is kept. A mailer
-- that has claimed an expired e-mail learns that it has expired when it tries to begin the transmission.
--
-- over: a batch; rows that other transactions hold locked are left for the next call
WITH over AS MATERIALIZED (
    SELECT id
    FROM weir_mail_email
    WHERE
        state IN ('pending', 'claimed')
        AND expires_at <= statement_timestamp()
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    ORDER BY expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE weir_mail_email
SET
    state = CASE WHEN ask_until IS NULL THEN 'expired' ELSE 'unknown' END,
    claim_token = CASE WHEN ask_until IS NOT NULL THEN gen_random_uuid() END,
    claimed_until = NULL,
    sending_since = CASE WHEN ask_until IS NOT NULL THEN clock_timestamp() END,
    ended_at = clock_timestamp(),
    phase = CASE WHEN ask_until IS NULL THEN phase ELSE 'begun' END,
    last_reply = CASE WHEN ask_until IS NULL THEN last_reply ELSE
        'It has expired: ' || relay || ' is not asked any more what became of it. ' || last_reply
    END
FROM over
WHERE weir_mail_email.id = over.id
RETURNING weir_mail_email.id, state, phase, last_reply, claimed_by, correlation_id, recipient
