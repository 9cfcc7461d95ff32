-- Writes the outcome of an attempt, whatever state the e-mail is in, if its claim still holds. No row: the claim is
-- lost. An unknown e-mail keeps token and time: its worker may still learn more, and operators see since when.
-- The acceptance of an earlier attempt (note_acceptance) outweighs the outcome of this one.
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
