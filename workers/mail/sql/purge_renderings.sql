-- Looks at up to `batch` renderings that are older than `older_than` seconds, and deletes those of e-mails that have
-- ended. The order is that of rendered_at and the e-mail's id; the batch begins after `after` and `after_id`. E-mails
-- that other transactions hold locked are skipped. Promises: no rendering of a waiting e-mail is deleted, even if an
-- operator resends the e-mail meanwhile.
--
-- old:   the next renderings, whether their e-mails have ended or not
-- ended: the e-mails of these that have ended, locked so that they stay ended
-- gone:  the deleted renderings
WITH old AS MATERIALIZED (
    SELECT email_id, rendered_at
    FROM weir_mail_rendering
    WHERE
        rendered_at < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
        AND (rendered_at, email_id) > (%(after)s::timestamptz, %(after_id)s::bigint)
    ORDER BY rendered_at, email_id
    LIMIT %(batch)s
), ended AS MATERIALIZED (
    SELECT id
    FROM weir_mail_email
    WHERE id = ANY (array(SELECT email_id FROM old)) AND state NOT IN ('pending', 'claimed', 'sending')
    FOR NO KEY UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_mail_rendering WHERE email_id = ANY (array(SELECT id FROM ended)) RETURNING 1
)
SELECT
    (SELECT count(*) FROM old) AS looked_at,
    (SELECT count(*) FROM gone) AS deleted,
    (SELECT max(rendered_at) FROM old) AS last,
    (SELECT email_id FROM old ORDER BY rendered_at DESC, email_id DESC LIMIT 1) AS last_id
