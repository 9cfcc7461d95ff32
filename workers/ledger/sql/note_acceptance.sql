-- Records that an effect is done although the worker that did it has lost its claim: an acceptance is never thrown
-- away. If another worker has begun the effect once more, the acceptance is kept in `earlier_reply`,
-- where `record` finds it.
UPDATE {table}
SET
    state = CASE WHEN state = '{begun}' THEN state ELSE '{done}' END,
    earlier_reply = CASE WHEN state = '{begun}' THEN %(last_reply)s ELSE '' END,
    last_reply = CASE WHEN state = '{begun}' THEN last_reply ELSE %(last_reply)s END,
    claimed_until = CASE WHEN state = '{begun}' THEN claimed_until END,
    {own_at_record}
    claim_token = CASE WHEN state = '{begun}' THEN claim_token END,
    {begun_at} = CASE WHEN state = '{begun}' THEN {begun_at} END,
    {done_at} = CASE WHEN state = '{begun}' THEN {done_at} ELSE clock_timestamp() END,
    ended_at = CASE WHEN state = '{begun}' THEN ended_at ELSE clock_timestamp() END,
    {reference} = CASE WHEN %(reference)s::text = '' THEN {reference} ELSE %(reference)s::text END,
    ask_until = NULL
WHERE id = %(row)s AND state NOT IN ({accepted})
RETURNING id
