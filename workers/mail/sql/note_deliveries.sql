-- Records when sent e-mails were delivered, if that is later than what is recorded. An e-mail that an operator has sent
-- again more than `clock_error` after the delivery is left as it is: it is about what was sent before. Rows are locked
-- in the order of their ids.
WITH said AS MATERIALIZED (
    SELECT id, least(at, statement_timestamp()) AS at  -- without a time, now
    FROM unnest(%(emails)s::bigint[], %(times)s::timestamptz[]) AS delivery (id, at)
), locked AS MATERIALIZED (
    SELECT email.id
    FROM weir_mail_email AS email
    WHERE email.id = ANY(ARRAY(SELECT id FROM said)) AND email.state = 'sent' AND email.ask_until IS NULL
    ORDER BY email.id
    FOR NO KEY UPDATE
)
UPDATE weir_mail_email AS email
SET delivered_at = said.at
FROM locked
JOIN said ON said.id = locked.id
WHERE
    email.id = locked.id
    AND email.state = 'sent'
    AND email.ask_until IS NULL
    AND (email.delivered_at IS NULL OR email.delivered_at < said.at)
    AND NOT EXISTS (
        SELECT 1
        FROM weir_mail_resolution AS resolution
        WHERE
            resolution.email_id = locked.id
            AND resolution.act IN ('resend', 'correct')
            AND said.at < resolution.resolved_at - %(clock_error)s::interval
    )
RETURNING email.id
