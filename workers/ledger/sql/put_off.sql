-- Gives back effects that a worker has claimed and not tried, if its claim still holds. Each effect is due again after
-- its own number of seconds; up to a fifth is added at random.
UPDATE {table}
SET
    state = 'pending',
    claim_token = NULL,
    claimed_until = NULL,
    next_attempt_at = clock_timestamp() + make_interval(secs => greatest(waiting.seconds, 1) * (1 + random() / 5))
FROM unnest(%(rows)s::bigint[], %(seconds)s::float8[]) AS waiting (id, seconds)
WHERE {table}.id = waiting.id AND claim_token = %(token)s AND state = 'claimed'
RETURNING {table}.id
