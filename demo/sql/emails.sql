-- What has become of all orders' e-mails so far; the others are on their way.
SELECT
    count(*) AS shipped,
    count(*) FILTER (WHERE state = 'sent') AS sent,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'unknown') AS unknown
FROM mail_email
