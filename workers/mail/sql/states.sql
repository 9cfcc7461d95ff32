-- Counts the e-mails of each state but `sent`, each number up to `most`. The query only reads, and uses partial
-- indexes: its cost does not grow with the table. Run it with planner.by_indexes.
SELECT
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'pending' LIMIT %(most)s) AS e) AS pending,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'claimed' LIMIT %(most)s) AS e) AS claimed,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'sending' LIMIT %(most)s) AS e) AS sending,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'failed' LIMIT %(most)s) AS e) AS failed,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'unknown' LIMIT %(most)s) AS e) AS unknown,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'bounced' LIMIT %(most)s) AS e) AS bounced,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'cancelled' LIMIT %(most)s) AS e) AS cancelled,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'suppressed' LIMIT %(most)s) AS e) AS suppressed,
    (SELECT count(*) FROM (SELECT FROM weir_mail_email WHERE state = 'expired' LIMIT %(most)s) AS e) AS expired
