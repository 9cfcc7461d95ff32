-- Count the queued fetches of the sites after site `after`, up to site `until`. At most `most` fetches are counted, so
-- the last site that is returned may have more. Read in the order of the index weir_fetch_queue (index order,
-- docs/explanation/sql.md). Reads only.
SELECT site_id, count(*) AS fetches
FROM (
    SELECT site_id
    FROM weir_fetches_fetch
    WHERE state = 'queued' AND site_id > %(after)s AND site_id <= %(until)s
    ORDER BY site_id, priority DESC, not_before, id
    LIMIT %(most)s
) AS queue
GROUP BY site_id
ORDER BY site_id
