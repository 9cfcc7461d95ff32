-- Gives back e-mails that were claimed and not tried, if the claim still holds: each is due after its wait, or up to a
-- fifth later.
UPDATE weir_mail_email
SET
    state = 'pending',
    claim_token = NULL,
    claimed_until = NULL,
    next_attempt_at = clock_timestamp() + make_interval(secs => greatest(waiting.seconds, 1) * (1 + random() / 5))
FROM unnest(%(emails)s::bigint[], %(seconds)s::float8[]) AS waiting (id, seconds)
WHERE weir_mail_email.id = waiting.id AND claim_token = %(token)s AND state = 'claimed'
RETURNING weir_mail_email.id
