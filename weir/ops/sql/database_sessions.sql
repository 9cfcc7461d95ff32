-- Read the age of the oldest transaction of another session, or of a prepared one, that keeps dead rows; how many
-- sessions there are, and how many there may be. Reads only. A transaction that has written keeps dead rows by its own
-- id, even between two statements, when it has no snapshot. Only a role that may see the sessions of others counts them
-- (pg_read_all_stats).
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
