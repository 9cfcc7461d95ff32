-- Returns whether mailers have anything to do: an e-mail is due, is held by a mailer, or has expired. On the form of
-- the subqueries see "First row" in docs/explanation/sql.md.
SELECT (
        SELECT id FROM weir_mail_email
        WHERE state = 'pending' AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at, id
        LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM weir_mail_email WHERE state IN ('claimed', 'sending') ORDER BY state, sending_since LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM weir_mail_email
        WHERE state IN ('pending', 'claimed') AND expires_at <= statement_timestamp()
        ORDER BY expires_at
        LIMIT 1
    ) IS NOT NULL AS has_work
