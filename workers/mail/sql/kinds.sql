-- Counts the waiting, unknown and failed e-mails of each kind, each number up to `most`. The kinds are the `registered`
-- ones, the paused ones, and those that have e-mails. The query only reads, and uses indexes: its cost grows neither
-- with the table nor with the number of waiting e-mails. Run it with planner.by_indexes.
--
-- stored: the kinds that have e-mails; one lookup in the index weir_email_kind for each kind
-- known:  all kinds
-- Kinds are compared and ordered in such a way that each count uses one index, and stops at `most`: weir_email_queues
-- for waiting e-mails, weir_email_unsent_by_kind for the others. With an index that lacks the kind, the query would
-- read the e-mails of all other kinds, too.
WITH RECURSIVE stored AS (
    (SELECT kind FROM weir_mail_email ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT following.kind
    FROM stored CROSS JOIN LATERAL (
        SELECT kind FROM weir_mail_email WHERE kind > stored.kind ORDER BY kind LIMIT 1
    ) AS following
), known AS (
    SELECT kind FROM stored
    UNION
    SELECT kind FROM weir_mail_pausedkind
    UNION
    SELECT unnest(%(registered)s::text[])
)
SELECT
    kind,
    kind = ANY (%(registered)s::text[]) AS is_registered,
    paused_at,
    coalesce(who, '') AS who,
    coalesce(why, '') AS why,
    (
        SELECT count(*)
        FROM (
            SELECT FROM weir_mail_email AS e
            WHERE e.kind >= known.kind AND e.kind <= known.kind AND state = 'pending'
            ORDER BY e.kind, e.priority, e.next_attempt_at, e.id
            LIMIT %(most)s
        ) AS few
    ) AS waiting,
    (
        SELECT count(*)
        FROM (
            SELECT FROM weir_mail_email AS e
            WHERE e.kind >= known.kind AND e.kind <= known.kind AND state = 'unknown'
            ORDER BY e.kind, e.created_at, e.id
            LIMIT %(most)s
        ) AS few
    ) AS unknown,
    (
        SELECT count(*)
        FROM (
            SELECT FROM weir_mail_email AS e
            WHERE e.kind >= known.kind AND e.kind <= known.kind AND state = 'failed'
            ORDER BY e.kind, e.created_at, e.id
            LIMIT %(most)s
        ) AS few
    ) AS failed
FROM known LEFT JOIN weir_mail_pausedkind USING (kind)
ORDER BY kind
