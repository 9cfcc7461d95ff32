-- Removes personal data from up to `batch` e-mails to `address` that have ended, and from their resolutions.
-- Promises: all personal data of an e-mail is removed together; a forgotten e-mail is not found by its address again.
-- The e-mail's Message-ID, state, times, relay, provider's id and the hash of its content stay.
--
-- ended:     a batch of e-mails, locked so that they stay ended
-- contents:  the renderings of these e-mails
-- said:      resolutions, whose texts may quote the address
-- forgotten: the e-mails themselves
WITH ended AS MATERIALIZED (
    SELECT id
    FROM weir_mail_email
    WHERE
        lower(recipient) COLLATE "C" = lower(%(address)s)
        AND state NOT IN ('pending', 'claimed', 'sending')
    ORDER BY lower(recipient) COLLATE "C", id
    LIMIT %(batch)s
    FOR UPDATE
), contents AS (
    DELETE FROM weir_mail_rendering WHERE email_id = ANY (array(SELECT id FROM ended))
), said AS (
    UPDATE weir_mail_resolution
    SET last_reply = '', why = regexp_replace(why, %(pattern)s, '<recipient>', 'gi')
    WHERE email_id = ANY (array(SELECT id FROM ended))
), forgotten AS (
    UPDATE weir_mail_email
    SET
        recipient = '',
        recipient_name = '',
        context = '{}',
        subject = '',
        last_reply = CASE WHEN last_reply = '' THEN '' ELSE %(instead)s END,
        earlier_reply = ''
    WHERE id = ANY (array(SELECT id FROM ended))
    RETURNING 1
)
SELECT count(*) AS deleted FROM forgotten
