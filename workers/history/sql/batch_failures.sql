-- Count the classes of errors of a batch's failed fetches, of the `look` newest of them, the most frequent first. Index
-- order (docs/explanation/sql.md). Reads only.
SELECT weir_history_failure_reason(error) AS reason, count(*) AS fetches
FROM (
    SELECT error
    FROM weir_fetches_fetch
    WHERE batch_id IS NOT NULL
        AND (batch_id, state, id) < (%(batch)s, 'failed', 9223372036854775807)
        AND (batch_id, state, id) > (%(batch)s, 'failed', 0)
    ORDER BY batch_id DESC, state DESC, id DESC
    LIMIT (SELECT %(look)s::bigint)  -- unknown limit
) AS newest
GROUP BY reason
ORDER BY fetches DESC, reason
