-- Make the fetches due that wait for these access tokens, at any site: `errors` has the error with which they wait for each
-- token. A token must be new, or there must be an error by now; a site that has refused the token gets no fetch back. The
-- fetches have their old places in the queue again. One that another transaction has locked is left alone (skip locked).
-- Returns the sites of the fetches that were made due.
UPDATE weir_fetches_fetch AS job
SET not_before = job.due_since, due_since = NULL
WHERE id = ANY(ARRAY(
    SELECT waiting.id
    FROM unnest(%(keys)s::uuid[], %(errors)s::text[]) AS awaited (key, error)
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT * FROM weir_fetches_accesstoken WHERE weir_fetches_accesstoken.key = awaited.key OFFSET 0
    ) AS token
    CROSS JOIN LATERAL (  -- weir_fetch_waits_for_robots, which has few rows
        SELECT id FROM weir_fetches_fetch
        WHERE state = 'queued' AND due_since IS NOT NULL AND error = awaited.error
            AND (token.error <> '' OR site_id <> ALL(coalesce(token.refused_by, '{}')))
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS waiting
    WHERE token.refresh_at > clock_timestamp()
))
RETURNING site_id
