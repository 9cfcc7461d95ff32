-- Returns a row if the first due e-mail of this kind and priority was queued before this e-mail.
SELECT 1
FROM (
    SELECT id
    FROM weir_mail_email
    WHERE
        state = 'pending'
        AND kind = %(kind)s
        AND priority = %(priority)s
        AND next_attempt_at <= statement_timestamp()
    ORDER BY next_attempt_at, id
    LIMIT 1
) AS first
WHERE id < %(email)s
