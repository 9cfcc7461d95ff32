-- Returns a row if the first due effect of this kind and priority was queued before this effect.
SELECT 1
FROM (
    SELECT id
    FROM {table}
    WHERE
        state = 'pending'
        AND kind = %(kind)s
        AND priority = %(priority)s
        AND next_attempt_at <= statement_timestamp()
    ORDER BY next_attempt_at, id
    LIMIT 1
) AS first
WHERE id < %(row)s
