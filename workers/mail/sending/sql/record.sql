-- Writes the outcome of an attempt, whatever state the e-mail is in, if its claim still holds. No row: it is lost.
-- An unknown e-mail keeps token and time: its worker may still learn more, and operators see since when.
UPDATE mail_email
SET
    state = %(state)s::text,
    claimed_until = NULL,
    claim_token = CASE WHEN %(state)s::text = 'unknown' THEN claim_token END,
    sending_since = CASE WHEN %(state)s::text = 'unknown' THEN sending_since END,
    sent_at = CASE WHEN %(state)s::text = 'sent' THEN clock_timestamp() END,
    next_attempt_at = CASE
        WHEN %(state)s::text = 'pending' THEN clock_timestamp() + %(retry_in)s
        ELSE next_attempt_at
    END,
    attempts = attempts + %(attempts)s,
    phase = %(phase)s,
    last_reply = %(last_reply)s
WHERE id = %(email)s AND claim_token = %(token)s
RETURNING id
