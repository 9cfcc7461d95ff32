-- Takes up to %(limit)s e-mails that are due, for a lease. Promises: no two mailers get the same e-mail; none of a
-- paused kind is taken, and none of another stream, which has other relays; a higher priority comes first, then the
-- kind whose first e-mail waits longest.
--
-- queues: each kind and priority with waiting e-mails, and the first of these; one index lookup for each
-- open:   the queues whose first e-mail is due. The longest pattern that matches a kind says whether the kind is ours:
--         `starts` are the patterns, `are_open` whether a kind may continue after one (as in `kind_routes.of_kind`)
-- picked: the first e-mails of the open queues; a queue is read, and its rows locked, if those before it gave too few.
--         Compared and ordered as rows, so that only the index of the queues can be used: an index by time alone would
--         read through all due e-mails of other kinds
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
