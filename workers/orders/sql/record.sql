-- Writes what came of an e-mail, whatever others made of it, as long as its claim is not lost: no row, if it is.
-- An unknown one keeps token and time: its worker may still learn more, and the operator sees since when.
UPDATE orders_shippedemail
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
