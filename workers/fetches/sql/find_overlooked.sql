-- Look at the next `most` sites after site `after`, and activate the backlog flags of those that have queued fetches.
-- Returns one row: how many flags changed, how many sites were looked at, and the last of these.
WITH looked_at AS MATERIALIZED (
    SELECT id, has_backlog FROM ratelimit_site WHERE id > %(after)s ORDER BY id LIMIT %(most)s
), activated AS (
    UPDATE ratelimit_site
    SET has_backlog = true
    -- Array look-up (docs/explanation/sql.md).
    WHERE id = ANY(ARRAY(
        SELECT site.id FROM looked_at AS site
        -- First row.
        WHERE NOT has_backlog AND (
            SELECT id FROM fetches_fetch AS job
            WHERE job.site_id = site.id AND job.state = 'queued'
            ORDER BY priority DESC, not_before, id
            LIMIT 1
        ) IS NOT NULL
    )) AND NOT has_backlog
    RETURNING id
)
SELECT (SELECT count(*) FROM activated) AS activated, count(*) AS looked_at, max(id) AS last FROM looked_at
