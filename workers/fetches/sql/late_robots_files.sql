-- Delete robots.txt files of the deleted sites after site `after`, up to site `last`. Such a file was stored after the
-- deletion of its site, or was being changed during it. The file would count as known, but no fetcher would find it. A
-- file that another transaction has locked is left for the next time.
WITH late AS MATERIALIZED (
    SELECT file.origin
    FROM (
        SELECT site_id FROM weir_ratelimit_deletedsite WHERE site_id > %(after)s AND site_id <= %(last)s OFFSET 0
    ) AS deleted
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT origin FROM weir_fetches_robotsfile WHERE site_id = deleted.site_id FOR UPDATE SKIP LOCKED
    ) AS file
), gone AS (
    DELETE FROM weir_fetches_robotsfile WHERE origin = ANY(ARRAY(SELECT origin FROM late)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
