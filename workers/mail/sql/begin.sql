-- Records that an e-mail's transmission begins now: from here on the e-mail is never taken back from its worker.
-- Returns no row if the claim is lost, or if no attempt may begin any more.
-- The first attempt at a relay that remembers idempotency keys starts the time in which the relay may be asked again.
-- When that time is over, or the e-mail has expired, no attempt begins. PostgreSQL's clock decides, so this is true
-- even for a worker that has stood still, or whose clock is wrong.
UPDATE weir_mail_email
SET
    state = 'sending',
    claimed_until = NULL,
    sending_since = clock_timestamp(),
    phase = 'begun',
    last_reply = '',
    relay = %(relay)s,
    ask_until = COALESCE(ask_until, CASE
        WHEN %(asked_for)s::interval IS NOT NULL THEN LEAST(clock_timestamp() + %(asked_for)s::interval, expires_at)
    END)
WHERE
    id = %(email)s AND claim_token = %(token)s AND state = 'claimed'
    AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    AND (ask_until IS NULL OR ask_until > clock_timestamp())
    AND (expires_at IS NULL OR expires_at > clock_timestamp())
RETURNING id
