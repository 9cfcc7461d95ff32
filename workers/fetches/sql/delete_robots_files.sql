-- Delete the robots.txt files of these sites, which were deleted in the same transaction. A file that another
-- transaction is changing is left to sweep (late_robots_files.sql).
WITH files AS MATERIALIZED (
    SELECT origin FROM weir_fetches_robotsfile
    WHERE site_id = ANY(%(sites)s::bigint[])
    FOR UPDATE SKIP LOCKED
)
DELETE FROM weir_fetches_robotsfile WHERE origin = ANY(ARRAY(SELECT origin FROM files))
