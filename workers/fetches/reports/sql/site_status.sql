-- List the `limit` busiest sites (NULL: all): those with the most queued fetches first, then those that are reserved
-- farthest ahead. Reads only.
-- The queue is counted once for all sites, by the index fetch_queue (index order, docs/explanation/sql.md).
WITH waiting AS MATERIALIZED (
    SELECT site_id, count(*) AS queued
    FROM (
        SELECT site_id FROM fetches_fetch WHERE state = 'queued' ORDER BY site_id, priority DESC, not_before, id OFFSET 0
    ) AS queue
    GROUP BY site_id
), busiest AS MATERIALIZED (
    SELECT site.*, coalesce(queued, 0) AS backlog
    FROM ratelimit_site AS site
    LEFT JOIN waiting ON waiting.site_id = site.id
    ORDER BY coalesce(queued, 0) DESC, next_start DESC, name
    LIMIT %(limit)s::bigint
)
SELECT
    name, "interval", written_rate, effective_interval, burst, max_concurrency, covers_subdomains, obeys_robots, paused_until,
    backoff_error, backlog,
    greatest(extract(epoch FROM next_start - now), 0)::float8 AS reserved_for_s,
    greatest(extract(epoch FROM CASE WHEN paused_until > now THEN paused_until ELSE backed_off_until END - now), 0)::float8
        AS held_for_s,
    CASE
        WHEN paused_until > now THEN 'paused'
        WHEN backed_off_until > now AND backoff_error <> '' THEN 'unreachable'
        WHEN backed_off_until > now THEN 'backed off'
        WHEN backlog > 0 OR next_start > now THEN 'busy'
        ELSE 'idle'
    END AS state,
    (SELECT count(*) FROM ratelimit_site) AS total
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN busiest
ORDER BY backlog DESC, next_start DESC, name
