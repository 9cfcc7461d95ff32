-- Ends up to %(batch)s e-mails that wait, or are claimed, and whose time is over. Promises: an e-mail that may have
-- been accepted does not become `expired` but `unknown`, because its relay is not asked any more. The last reply is
-- kept. A mailer that has claimed such an e-mail finds that out when it begins to send it.
--
-- over: a batch; rows that other transactions hold locked are left for the next time
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
