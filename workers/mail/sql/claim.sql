-- Takes up to %(limit)s e-mails that are due, for a lease. Promises: no two mailers get the same one; none of a paused
-- kind, and none of another stream, whose relays are others; those of a higher priority first, then of the kind whose
-- first one waits longest.
--
-- queues: each kind and priority of which something waits, with its first e-mail: one look into the index for each
-- open:   those queues whose first e-mail is due. Of the patterns that fit the kind the longest says whether it is ours:
--         `starts`, and for each whether kinds may go on behind it (as `kind_routes.of_kind` says)
-- picked: the first e-mails of the open queues; a queue is read, and its rows locked, when those before it gave too few.
--         Compared and ordered as rows, so that no other index than that of the queues serves: one by time alone would
--         pass by all that is due of other kinds
WITH RECURSIVE queues AS (
    (
        SELECT kind, priority, next_attempt_at
        FROM weir_mail_email
        WHERE state = 'pending'
        ORDER BY kind, priority, next_attempt_at
        LIMIT 1
    )
    UNION ALL
    SELECT following.kind, following.priority, following.next_attempt_at
    FROM queues CROSS JOIN LATERAL (
        SELECT kind, priority, next_attempt_at
        FROM weir_mail_email
        WHERE state = 'pending' AND (kind, priority) > (queues.kind, queues.priority)
        ORDER BY kind, priority, next_attempt_at
        LIMIT 1
    ) AS following
), open AS MATERIALIZED (
    SELECT kind, priority
    FROM queues
    WHERE (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
        AND next_attempt_at <= statement_timestamp() AND kind NOT IN (SELECT kind FROM weir_mail_pausedkind)
        AND (
            SELECT is_ours
            FROM unnest(%(starts)s::text[], %(are_open)s::bool[], %(are_ours)s::bool[]) AS route (start, is_open, is_ours)
            WHERE queues.kind = start OR is_open AND starts_with(queues.kind, start)
            ORDER BY length(start) DESC
            LIMIT 1
        )
    ORDER BY priority DESC, next_attempt_at
), picked AS MATERIALIZED (
    SELECT due.id
    FROM open CROSS JOIN LATERAL (
        SELECT id
        FROM weir_mail_email
        WHERE
            state = 'pending'
            AND (kind, priority, next_attempt_at) >= (open.kind, open.priority, '-infinity'::timestamptz)
            AND (kind, priority, next_attempt_at) <= (open.kind, open.priority, statement_timestamp())
        ORDER BY kind, priority, next_attempt_at, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS due
    LIMIT %(limit)s
)
UPDATE weir_mail_email
SET
    state = 'claimed',
    claim_token = %(token)s,
    claimed_by = %(claimed_by)s,
    claimed_until = clock_timestamp() + %(lease)s
FROM picked
WHERE weir_mail_email.id = picked.id
RETURNING weir_mail_email.id
