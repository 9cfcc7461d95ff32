-- Close the gate, `because` PostgreSQL has forgotten or its clock was stepped by `step` seconds, and take the lease of
-- the recovery. Without a reason, only take the lease. Returns the reason why the gate is closed: the reason of an
-- earlier recovery, if that did not end.
-- No row: another process has the lease, or has settled the fault since the caller's look. `steps` and `generation`,
-- as the caller saw them, tell that: a step that is settled twice would move all times twice, and make them wrong.
-- Each lease has a token. So a process that resumes after another process has taken the lease cannot renew the lease or
-- open the gate (fenced write).
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
