-- Takes up to %(limit)s effects that are due, for a lease. Promises: no two workers get the same effect; no effect of a
-- paused kind is taken, and none of a kind that is not the caller's. Effects of a higher priority are taken first; among
-- kinds of one priority, those of the kind whose first effect has waited longest.
--
-- queues: each kind and priority that has waiting effects, with the time of the first of them; one index lookup each
-- open:   the queues whose first effect is due, if their kind is the caller's. The longest pattern that matches a
--         kind says whether it is: `starts` are the patterns, `are_open` says whether a kind may continue after its
--         pattern (as in `kind_routes.of_kind`), `are_ours` whether the pattern is the caller's
-- picked: the first effects of the open queues. A queue is read, and its rows are locked, only if the queues before it
--         had too few. Columns are compared and ordered as rows, so that only the index of the queues can be used: with
--         an index by time alone, the query would read through all due effects of other kinds
WITH RECURSIVE queues AS (
    (
        SELECT kind, priority, next_attempt_at
        FROM {table}
        WHERE state = 'pending'
        ORDER BY kind, priority, next_attempt_at
        LIMIT 1
    )
    UNION ALL
    SELECT following.kind, following.priority, following.next_attempt_at
    FROM queues CROSS JOIN LATERAL (
        SELECT kind, priority, next_attempt_at
        FROM {table}
        WHERE state = 'pending' AND (kind, priority) > (queues.kind, queues.priority)
        ORDER BY kind, priority, next_attempt_at
        LIMIT 1
    ) AS following
), open AS MATERIALIZED (
    SELECT kind, priority
    FROM queues
    WHERE (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
        AND next_attempt_at <= statement_timestamp() AND kind NOT IN (SELECT kind FROM {paused})
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
        FROM {table}
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
UPDATE {table}
SET
    state = 'claimed',
    claim_token = %(token)s,
    claimed_by = %(claimed_by)s,
    claimed_until = clock_timestamp() + %(lease)s
WHERE id = ANY(ARRAY(SELECT id FROM picked))  -- array look-up
RETURNING id
