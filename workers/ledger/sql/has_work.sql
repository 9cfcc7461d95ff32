-- Returns whether workers have anything to do: an effect is due, is held by a worker, or has expired. On the form of
-- the subqueries see "First row" in docs/explanation/sql.md.
SELECT (
        SELECT id FROM {table}
        WHERE state = 'pending' AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at, id
        LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM {table} WHERE state IN ('claimed', '{begun}') ORDER BY state, {begun_at} LIMIT 1
    ) IS NOT NULL
    OR (
        SELECT id FROM {table}
        WHERE state IN ('pending', 'claimed') AND expires_at <= statement_timestamp()
        ORDER BY expires_at
        LIMIT 1
    ) IS NOT NULL AS has_work
