-- Tells whether an e-mail that was queued before this one could be claimed now: a row if so.
SELECT 1
FROM mail_email
WHERE
    state = 'pending'
    AND next_attempt_at <= statement_timestamp()
    AND id < %(email)s
    AND kind NOT IN (SELECT kind FROM mail_pausedkind)
LIMIT 1
