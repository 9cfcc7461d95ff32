-- Corrects the times of e-mails after PostgreSQL's clock was stepped by `step`. Leases, and the times since which
-- e-mails are being sent, are moved by the step. If the clock was set back, next_attempt_at is moved, too, for an
-- e-mail that was due already, or that waits after an attempt, because that time was computed from the clock. Web code
-- chose all other times, and they stay.
-- Promises: no relay is asked again after it may have forgotten the idempotency key. So ask_until never becomes later,
-- because the relay's own clock decides how long it keeps the key.
UPDATE weir_mail_email
SET claimed_until = claimed_until + %(step)s,
    sending_since = CASE WHEN state = 'sending' THEN sending_since + %(step)s ELSE sending_since END,
    ask_until = ask_until + least(%(step)s, '0'::interval),
    next_attempt_at = CASE
        WHEN state IN ('pending', 'claimed', 'sending') AND %(step)s < '0'::interval AND next_attempt_at > clock.now
            AND (next_attempt_at <= clock.now - %(step)s OR attempts > 0)
        THEN next_attempt_at + %(step)s ELSE next_attempt_at
    END
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
WHERE state IN ('claimed', 'sending') OR ask_until IS NOT NULL OR (state = 'pending' AND next_attempt_at > clock.now)
