-- Count, by kind, the e-mails that were sent within `within`, of those up to `most`. Reads only, by the block range index of
-- their ends: the cost grows with what ended in that time, to a bound, and not with the table. Run after by_indexes.
SELECT kind, count(*) AS number
FROM (
    SELECT kind
    FROM weir_mail_email
    WHERE
        ended_at > statement_timestamp() - %(within)s::interval AND state = 'sent'
        AND sent_at > statement_timestamp() - %(within)s::interval  -- one that was found to have arrived ended later
    LIMIT %(most)s
) AS few
GROUP BY kind
