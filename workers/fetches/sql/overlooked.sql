-- Look at the next `lanes` lanes after lane `after`, and turn those on that have queued fetches though they are off.
-- Returns one row: how many were turned on, how many were looked at, and the last of those.
WITH looked_at AS MATERIALIZED (
    SELECT id, has_backlog FROM ratelimit_site WHERE id > %(after)s ORDER BY id LIMIT %(lanes)s
), turned_on AS (
    UPDATE ratelimit_site
    SET has_backlog = true
    -- An array, so that the lanes are found by their index, however many the planner expects.
    WHERE id = ANY(ARRAY(
        SELECT lane.id FROM looked_at AS lane
        -- One look at the queue's index a lane, as in look_again.sql.
        WHERE NOT has_backlog AND (
            SELECT id FROM fetches_fetch AS job
            WHERE job.site_id = lane.id AND job.state = 'queued'
            ORDER BY priority DESC, not_before, id
            LIMIT 1
        ) IS NOT NULL
    )) AND NOT has_backlog
    RETURNING id
)
SELECT (SELECT count(*) FROM turned_on) AS turned_on, count(*) AS looked_at, max(id) AS last FROM looked_at
