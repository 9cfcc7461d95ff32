-- Correct the times of e-mails after PostgreSQL's clock was stepped by `step`. Leases, and since when an e-mail is
-- being sent, are moved. If the clock was set back, the time when an e-mail becomes due is moved, too, if it counts
-- from the clock: the e-mail was due already, or waits after an attempt. Other times were named by web code, and stay.
-- Promises: no relay is asked again that may have forgotten the idempotency key: ask_until becomes no later, because
-- the key's lifetime runs by another clock.
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
