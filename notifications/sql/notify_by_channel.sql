-- Write the same notification for many users, each by the channel that the user has chosen for its kind, or else by the
-- kind's own. Nothing is written for a user of the channel `none`, or one who has a notification with the dedupe key.
-- Returns the rows that were written, and whether an e-mail of its own tells each. Otherwise like notify_once.sql.
-- A row that an e-mail is to tell gets the e-mail's id before the caller's transaction commits.
WITH chosen AS MATERIALIZED (
    SELECT recipient.user_id, place, coalesce(
        own.channel, CASE WHEN %(channel)s::text = 'digest' AND off.user_id IS NOT NULL THEN 'page' END, %(channel)s::text
    ) AS channel
    FROM unnest(%(users)s::user_key[]) WITH ORDINALITY AS recipient(user_id, place)
    LEFT JOIN weir_notifications_preference AS own ON own.user_id = recipient.user_id AND own.kind = %(kind)s
    LEFT JOIN weir_notifications_preference AS off ON off.user_id = recipient.user_id AND off.kind = ''
), written AS (
    INSERT INTO weir_notifications_notification (
        user_id, kind, title, body, url, expires_at, dedupe_key, digest_due_at
    )
    SELECT
        user_id, %(kind)s, %(title)s, %(body)s, %(url)s, %(expires_at)s::timestamptz, %(dedupe_key)s,
        CASE channel
            WHEN 'digest' THEN statement_timestamp() + %(digest_after)s::interval
            WHEN 'email' THEN statement_timestamp()
        END
    FROM chosen
    WHERE channel <> 'none'
    ORDER BY place
    ON CONFLICT (user_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
    RETURNING id, user_id
)
SELECT written.id, written.user_id, chosen.channel = 'email' AS is_emailed
FROM written JOIN chosen ON chosen.user_id = written.user_id
