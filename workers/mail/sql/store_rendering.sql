-- Stores what is transmitted of a claimed e-mail, in place of an earlier draft, and what the e-mail's row says about it.
-- Returns no row, and stores nothing, if the claim is lost.
WITH noted AS (
    UPDATE weir_mail_email
    SET
        recipient = %(recipient)s,
        renderings = %(renderings)s,
        subject = %(subject)s,
        content_hash = %(content_hash)s,
        content_size = %(content_size)s
    WHERE id = %(row)s AND claim_token = %(token)s
    RETURNING id
)
INSERT INTO weir_mail_rendering (email_id, content)
SELECT id, %(content)s FROM noted
ON CONFLICT (email_id) DO UPDATE SET content = excluded.content, rendered_at = statement_timestamp()
RETURNING email_id
