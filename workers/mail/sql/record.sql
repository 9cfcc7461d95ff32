-- Writes the outcome of an attempt if the claim still holds, whatever state the e-mail is in. Returns no row if the
-- claim is lost. An unknown e-mail keeps `claim_token`, because its worker may still learn more, and `sending_since`,
-- because operators want to see since when it is unknown. If an earlier attempt was accepted (note_acceptance), that
-- outweighs the outcome of this attempt.
UPDATE weir_mail_email
SET
    state = CASE WHEN earlier_reply = '' THEN %(state)s::text ELSE 'sent' END,
    claimed_until = NULL,
    claim_token = CASE WHEN %(state)s::text = 'unknown' AND earlier_reply = '' THEN claim_token END,
    sending_since = CASE
        WHEN %(state)s::text = 'unknown' AND earlier_reply = '' THEN COALESCE(sending_since, clock_timestamp())
    END,
    sent_at = CASE WHEN %(state)s::text = 'sent' OR earlier_reply <> '' THEN clock_timestamp() END,
    ended_at = CASE
        WHEN earlier_reply <> '' THEN clock_timestamp()
        WHEN %(state)s::text = state THEN ended_at  -- it was unknown, and still is
        WHEN %(state)s::text <> 'pending' THEN clock_timestamp()
    END,
    next_attempt_at = CASE
        WHEN %(state)s::text = 'pending' THEN clock_timestamp() + %(retry_in)s
        ELSE next_attempt_at
    END,
    attempts = attempts + %(attempts)s,
    phase = %(phase)s,
    last_reply = CASE WHEN earlier_reply = '' THEN %(last_reply)s ELSE earlier_reply END,
    provider_id = CASE WHEN %(provider_id)s::text = '' THEN provider_id ELSE %(provider_id)s::text END,
    ask_until = CASE WHEN %(settles)s::boolean THEN NULL ELSE ask_until END
WHERE id = %(email)s AND claim_token = %(token)s
RETURNING id
