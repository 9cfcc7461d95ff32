-- Records that an effect begins now: from here on the effect is never taken back from its worker.
-- Returns no row if the claim is lost, or if no attempt may begin any more.
-- The first attempt whose outcome can be asked for starts the time in which the other side may be asked. When that time
-- is over, or the effect has expired, no attempt begins. PostgreSQL's clock decides, so this is true even for a worker
-- that has stood still, or whose clock is wrong. To ask does not outlive the effect, unless it only reads (`is_probed`).
-- `state || ''` keeps PostgreSQL from the index of what is held: it would read all that workers have claimed.
UPDATE {table}
SET
    state = '{begun}',
    claimed_until = clock_timestamp() + %(lease)s::interval,
    {begun_at} = clock_timestamp(),
    phase = 'begun',
    last_reply = '',
    {own_at_begin}
    ask_until = COALESCE(ask_until, CASE
        WHEN %(asked_for)s::interval IS NOT NULL THEN LEAST(
            clock_timestamp() + %(asked_for)s::interval, CASE WHEN NOT %(is_probed)s::boolean THEN expires_at END
        )
    END)
WHERE
    id = %(row)s AND claim_token = %(token)s AND state || '' = 'claimed'
    AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    AND (ask_until IS NULL OR ask_until > clock_timestamp())
    AND (expires_at IS NULL OR expires_at > clock_timestamp())
RETURNING id
