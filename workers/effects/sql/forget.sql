-- Removes what is personal from up to `batch` effects that have ended, and whose user was to be forgotten: from those of
-- one user, or of all (`user` is NULL), and from what people said about them. Effects that other transactions hold locked
-- are skipped. Promises: an effect keeps what it needs so that it is not done again, and is not found by its user again;
-- none is changed that may still be done, asked about, or told of (on_done.py). A key that is a number stays in reasons,
-- where the number may mean something else.
WITH ended AS MATERIALIZED (
    SELECT id, user_key
    FROM weir_effects_effect
    WHERE
        state IN ('done', 'failed', 'cancelled', 'expired') AND forgotten_at IS NOT NULL AND on_done_again_at IS NULL
        AND (NOT (user_key = '') OR forgotten_at < ended_at)
        AND (on_done = '' OR on_done_called_at >= ended_at)
        AND (%(user)s::text IS NULL OR user_key = %(user)s::text)
    ORDER BY user_key, id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), said AS (
    UPDATE weir_effects_effectresolution
    SET last_reply = '', why = CASE
        WHEN ended.user_key ~ '^[0-9]*$' THEN why
        ELSE replace(why, ended.user_key, '<user>')
    END
    FROM ended
    WHERE effect_id = ended.id
), forgotten AS (
    UPDATE weir_effects_effect
    SET
        user_key = '',
        forgotten_at = clock_timestamp(),
        context = '{}',
        result = NULL,
        last_reply = CASE WHEN last_reply = '' THEN '' ELSE %(instead)s END,
        earlier_reply = ''
    WHERE id = ANY (array(SELECT id FROM ended))
    RETURNING 1
)
SELECT count(*) AS deleted FROM forgotten
