-- Delete one short batch of robots.txt files that have not counted for `older_than` seconds.
WITH old AS (
    SELECT origin FROM weir_fetches_robotsfile
    WHERE expires_at < clock_timestamp() - make_interval(secs => %(older_than)s::float8)
    ORDER BY expires_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM weir_fetches_robotsfile AS file USING old WHERE file.origin = old.origin RETURNING 1
)
SELECT count(*) AS deleted FROM gone
