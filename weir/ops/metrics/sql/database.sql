-- Read the age of the oldest snapshot of another session, how many sessions there are, and how many there may be. Reads
-- only. Sessions of others show their snapshots to a role that may see them (pg_read_all_stats).
SELECT
    coalesce(
        (
            SELECT extract(epoch FROM clock_timestamp() - min(xact_start))
            FROM pg_stat_activity
            WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
        ),
        0
    )::float8 AS oldest_snapshot_s,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int AS most_sessions
