-- Whether mailers have anything to do: an e-mail is due, or held by one, or its time is over.
SELECT EXISTS (
        SELECT FROM weir_mail_email WHERE state = 'pending' AND next_attempt_at <= statement_timestamp()
    )
    OR EXISTS (SELECT FROM weir_mail_email WHERE state IN ('claimed', 'sending'))
    OR EXISTS (
        SELECT FROM weir_mail_email WHERE state IN ('pending', 'claimed') AND expires_at <= statement_timestamp()
    ) AS has_work
