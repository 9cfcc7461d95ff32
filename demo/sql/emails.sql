-- How many e-mails have each final state, of all that were written.
SELECT
    count(*) AS shipped,
    count(*) FILTER (WHERE state = 'sent') AS sent,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'unknown') AS unknown
FROM weir_mail_email
