-- Writes the outcome of an attempt if the claim still holds, whatever state the effect is in. Returns no row if the
-- claim is lost. An unknown effect keeps `claim_token`, because its worker may still learn more, and `{begun_at}`,
-- because operators want to see since when it is unknown. If an earlier attempt was accepted (note_acceptance), that
-- outweighs the outcome of this attempt.
UPDATE {table}
SET
    state = CASE WHEN earlier_reply = '' THEN %(state)s::text ELSE '{done}' END,
    claimed_until = NULL,
    {own_at_record}
    claim_token = CASE WHEN %(state)s::text = 'unknown' AND earlier_reply = '' THEN claim_token END,
    {begun_at} = CASE
        WHEN %(state)s::text = 'unknown' AND earlier_reply = '' THEN COALESCE({begun_at}, clock_timestamp())
    END,
    {done_at} = CASE WHEN %(state)s::text = '{done}' OR earlier_reply <> '' THEN clock_timestamp() END,
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
    {reference} = CASE WHEN %(reference)s::text = '' THEN {reference} ELSE %(reference)s::text END,
    ask_until = CASE WHEN %(settles)s::boolean THEN NULL ELSE ask_until END
WHERE id = %(row)s AND claim_token = %(token)s
RETURNING id
