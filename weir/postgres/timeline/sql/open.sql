-- Open the gate: from now on, the history that the caller has seen (`timeline`, `cluster`) is the known one. If
-- PostgreSQL had forgotten something (`went_back`), the generation rises above any that a process may remember. Returns
-- the generation. No row: another process has taken the lease, and settles the fault.
UPDATE weir_timeline_knowntimeline
SET timeline = %(timeline)s,
    cluster = %(cluster)s,
    number = greatest(number, %(known)s::bigint) + CASE WHEN %(went_back)s::bool THEN %(jump)s::bigint ELSE 0 END,
    numbered_at = CASE WHEN %(went_back)s::bool THEN clock_timestamp() ELSE numbered_at END,
    went_back_at = CASE WHEN %(went_back)s::bool THEN clock_timestamp() ELSE went_back_at END,
    closed_because = '',
    steps = steps + CASE WHEN step_s IS NULL THEN 0 ELSE 1 END,
    step_s = NULL,
    lease_until = NULL,
    lease_token = NULL
WHERE lease_token = %(token)s::uuid
RETURNING number AS generation
