-- Returns those of these addresses to which an e-mail is being sent, or may be asked about again, among the newest ones.
-- The index of recipients is read for each address, so the cost does not grow with the other e-mails.
SELECT address
FROM unnest(%(addresses)s::text[]) AS address
WHERE EXISTS (
    SELECT 1
    FROM (
        SELECT state, ask_until
        FROM weir_mail_email
        WHERE lower(recipient) COLLATE "C" = lower(address)
        ORDER BY lower(recipient) COLLATE "C" DESC, id DESC
        LIMIT %(newest)s
    ) AS newest
    WHERE state = 'sending' OR ask_until IS NOT NULL
)
