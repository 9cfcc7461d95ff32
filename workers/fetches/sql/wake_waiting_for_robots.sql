-- Make the fetches due that wait for the robots.txt of one of these origins, at the origin's site, if that robots.txt
-- is known by now. The fetches have their old places in the queue again. A fetch that another transaction has locked is
-- left alone (skip locked).
-- Returns the sites of the fetches that were made due.
UPDATE weir_fetches_fetch AS job
SET not_before = job.due_since, due_since = NULL
WHERE id = ANY(ARRAY(
    SELECT waiting.id
    FROM unnest(%(origins)s::text[], %(sites)s::bigint[]) AS known (origin, site_id)
    -- Row look-up (docs/explanation/sql.md).
    CROSS JOIN LATERAL (
        SELECT expires_at FROM weir_fetches_robotsfile WHERE weir_fetches_robotsfile.origin = known.origin OFFSET 0
    ) AS file
    CROSS JOIN LATERAL (
        SELECT id
        FROM weir_fetches_fetch
        WHERE site_id = known.site_id AND state = 'queued' AND due_since IS NOT NULL
            AND substring(CASE WHEN hop_url = '' THEN url ELSE hop_url END FROM '^[^/]*//[^/]*') = known.origin
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS waiting
    WHERE file.expires_at > clock_timestamp()
))
RETURNING site_id
