-- Find fetches that are queued at deleted sites: at most `batch`, of the next `most` deleted sites after site `after`.
-- One look at the index fetch_queue for each (row look-up, index order: docs/explanation/sql.md). Reads only. Each row,
-- or one without a fetch, names the last of the deleted sites that were looked at, and says how many these were.
WITH looked_at AS MATERIALIZED (
    SELECT site_id FROM ratelimit_deletedsite WHERE site_id > %(after)s ORDER BY site_id LIMIT %(most)s
)
SELECT late.*, looked.looked_at, looked.last
FROM (SELECT count(*) AS looked_at, max(site_id) AS last FROM looked_at) AS looked
LEFT JOIN (
    SELECT job.*
    FROM looked_at
    CROSS JOIN LATERAL (
        SELECT id, slot_id, site_id, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS url
        FROM fetches_fetch
        WHERE fetches_fetch.site_id = looked_at.site_id AND state = 'queued'
        ORDER BY priority DESC, not_before, fetches_fetch.id
        LIMIT %(batch)s
    ) AS job
    LIMIT %(batch)s
) AS late ON true
ORDER BY late.id
