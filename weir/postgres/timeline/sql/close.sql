-- Close the gate, `because` PostgreSQL has forgotten or its clock was stepped by `step` seconds, and take the lease of
-- the recovery; without a reason take only the lease. Returns the reason that holds: that of an earlier recovery that
-- did not end, if there is one. No row: another process has the lease, or has settled what the caller has seen, by its
-- `steps` and `generation`, between that look and now. A step that is settled twice moves all times twice, and they are
-- wrong then. Each lease has a token: a process that comes back after another has taken the lease renews nothing, and
-- opens nothing (fenced write).
UPDATE weir_timeline_knowntimeline
SET closed_because = CASE WHEN closed_because = '' THEN %(because)s ELSE closed_because END,
    step_s = CASE WHEN closed_because = '' THEN %(step)s::float8 ELSE step_s END,
    went_back_at = CASE
        WHEN %(because)s = '' OR %(step)s::float8 IS NOT NULL THEN went_back_at ELSE clock_timestamp()
    END,
    lease_until = clock_timestamp() + make_interval(secs => %(lease)s::float8),
    lease_token = gen_random_uuid()
WHERE steps = %(steps)s AND number < %(generation)s::bigint + %(jump)s::bigint
    AND (
        lease_until IS NULL OR lease_until < clock_timestamp()
        OR lease_until > clock_timestamp() + make_interval(secs => %(lease)s::float8)
    )
RETURNING closed_because, step_s, lease_token
