-- Removes personal data from up to `batch` e-mails to `address` that have ended, and from their resolutions.
-- Promises: all personal data of an e-mail is removed together; a forgotten e-mail is not found by its address again.
-- The e-mail's Message-ID, state, times, relay, provider's id and the hash of its content stay.
-- A message to several recipients names the address in the contents of the others' e-mails, too, which have the same
-- Message-ID. These contents are made older than all others, so that the next purge deletes them, or the first one after
-- the end of their e-mails.
--
-- ended:     a batch of e-mails, locked so that they stay ended
-- contents:  the renderings of these e-mails
-- aged:      the renderings of the same messages to other recipients
-- said:      resolutions, whose texts may quote the address
-- forgotten: the e-mails themselves
WITH ended AS MATERIALIZED (
    SELECT id, message_id, is_id_shared
    FROM weir_mail_email
    WHERE
        lower(recipient) COLLATE "C" = lower(%(address)s)
        AND state NOT IN ('pending', 'claimed', 'sending')
    ORDER BY lower(recipient) COLLATE "C", id
    LIMIT %(batch)s
    FOR UPDATE
), contents AS (
    DELETE FROM weir_mail_rendering WHERE email_id = ANY (array(SELECT id FROM ended))
), aged AS (
    UPDATE weir_mail_rendering
    SET rendered_at = '0001-01-02 00:00+00'
    FROM weir_mail_email AS other
    WHERE
        email_id = other.id
        AND other.message_id = ANY (array(SELECT DISTINCT message_id FROM ended WHERE is_id_shared))
        AND other.id <> ALL (array(SELECT id FROM ended))
), said AS (
    UPDATE weir_mail_resolution
    SET last_reply = '', why = regexp_replace(why, %(pattern)s, '<recipient>', 'gi')
    WHERE email_id = ANY (array(SELECT id FROM ended))
), forgotten AS (
    UPDATE weir_mail_email
    SET
        recipient = '',
        recipient_name = '',
        envelope_sender = '',
        context = '{}',
        subject = '',
        last_reply = CASE WHEN last_reply = '' THEN '' ELSE %(instead)s END,
        earlier_reply = ''
    WHERE id = ANY (array(SELECT id FROM ended))
    RETURNING 1
)
SELECT count(*) AS deleted FROM forgotten
