-- Look at the notes of the next `most` deleted sites after site `after`. Reads only. Returns one row: how many notes
-- were looked at, and the last of these sites.
SELECT count(*) AS looked_at, max(site_id) AS last
FROM (
    SELECT site_id FROM weir_ratelimit_deletedsite WHERE site_id > %(after)s ORDER BY site_id LIMIT %(most)s
) AS noted
