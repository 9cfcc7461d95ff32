-- Counts, by kind, the e-mails that were sent within the last `within`, `most` at most. The query only reads, and uses
-- the block range index of `ended_at`: its cost grows with the e-mails that ended in that time, up to a bound, not with
-- the table. Run it with planner.by_indexes.
SELECT kind, count(*) AS number
FROM (
    SELECT kind
    FROM weir_mail_email
    WHERE
        ended_at > statement_timestamp() - %(within)s::interval AND state = 'sent'
        -- An e-mail that was unknown, and was found to have arrived, has ended later than it was sent.
        AND sent_at > statement_timestamp() - %(within)s::interval
    LIMIT %(most)s
) AS few
GROUP BY kind
