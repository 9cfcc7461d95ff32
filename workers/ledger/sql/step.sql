-- Corrects the times of effects after PostgreSQL's clock was stepped by `step`. Leases, and the times since which
-- effects are in flight, are moved by the step. If the clock was set back, next_attempt_at is moved, too, for an
-- effect that was due already, or that waits after an attempt, because that time was computed from the clock. Web code
-- chose all other times, and they stay.
-- Promises: no other side is asked again after it may have forgotten the idempotency key. So ask_until never becomes later,
-- because the other side's own clock decides how long it keeps the key.
UPDATE {table}
SET claimed_until = claimed_until + %(step)s,
    {begun_at} = CASE WHEN state = '{begun}' THEN {begun_at} + %(step)s ELSE {begun_at} END,
    ask_until = ask_until + least(%(step)s, '0'::interval),
    next_attempt_at = CASE
        WHEN state IN ('pending', 'claimed', '{begun}') AND %(step)s < '0'::interval AND next_attempt_at > clock.now
            AND (next_attempt_at <= clock.now - %(step)s OR attempts > 0)
        THEN next_attempt_at + %(step)s ELSE next_attempt_at
    END
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
WHERE state IN ('claimed', '{begun}') OR ask_until IS NOT NULL OR (state = 'pending' AND next_attempt_at > clock.now)
