-- Count, by kind, at most `most` of the e-mails that were sent within `within`. Reads only, by the block range index of
-- their ends: the cost grows with what ended in that time, up to a bound, not with the table. Run after by_indexes.
SELECT kind, count(*) AS number
FROM (
    SELECT kind
    FROM weir_mail_email
    WHERE
        ended_at > statement_timestamp() - %(within)s::interval AND state = 'sent'
        AND sent_at > statement_timestamp() - %(within)s::interval  -- an e-mail found to have arrived has ended later
    LIMIT %(most)s
) AS few
GROUP BY kind
