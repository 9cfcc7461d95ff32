-- Return the age of the oldest transaction that keeps dead rows, either of another session or prepared; how many
-- sessions there are, and how many there may be. Only reads. A transaction that has written keeps dead rows because of
-- its own transaction id, even between two statements, when it has no snapshot. Sessions of other roles are counted
-- only if this role may see them (pg_read_all_stats).
SELECT
    coalesce(
        extract(
            epoch FROM clock_timestamp() - least(
                (
                    SELECT min(xact_start)
                    FROM pg_stat_activity
                    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
                        AND backend_type <> 'autovacuum worker'
                ),
                (SELECT min(prepared) FROM pg_prepared_xacts)
            )
        ),
        0
    )::float8 AS oldest_snapshot_s,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int AS most_sessions
