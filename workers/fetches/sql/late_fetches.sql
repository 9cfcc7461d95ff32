-- Find at most `batch` fetches that are queued at the deleted sites after site `after`, up to site `last`. The index
-- weir_fetch_queue is searched once for each site (row look-up, index order: docs/explanation/sql.md). Reads only.
SELECT late.*
FROM (
    SELECT job.*
    FROM (
        SELECT site_id FROM weir_ratelimit_deletedsite WHERE site_id > %(after)s AND site_id <= %(last)s OFFSET 0
    ) AS deleted
    CROSS JOIN LATERAL (
        SELECT
            id, slot_id, site_id, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS url, priority, not_before
        FROM weir_fetches_fetch
        WHERE weir_fetches_fetch.site_id = deleted.site_id AND state = 'queued'
        ORDER BY priority DESC, not_before, weir_fetches_fetch.id
        LIMIT %(batch)s
    ) AS job
    LIMIT %(batch)s
) AS late
ORDER BY late.id
