-- Look at the next `most` sites after site `after`, and find those that a fetch created, that no person ever set, and
-- that have been idle for `idle_for` seconds. Reads only; delete_sites.sql judges these sites again under their locks.
-- Returns one row: the ids of the idle sites, how many sites were looked at, and the last of the sites looked at.
WITH looked_at AS MATERIALIZED (
    SELECT id, is_kept, has_backlog, due_at, next_start, created_at
    FROM weir_ratelimit_site
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(most)s
)
SELECT
    ARRAY(
        SELECT id FROM looked_at
        WHERE NOT is_kept AND NOT has_backlog AND due_at IS NULL
            AND greatest(next_start, created_at) < statement_timestamp() - make_interval(secs => %(idle_for)s::float8)
        ORDER BY id
    ) AS idle,
    count(*) AS looked_at,
    max(id) AS last
FROM looked_at
