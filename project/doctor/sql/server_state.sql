-- Read PostgreSQL's version, its settings for durability and writes, and how many sessions it has. Reads only.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::int AS version_number,
    pg_is_in_recovery() AS is_standby,
    current_setting('default_transaction_read_only')::bool AS is_read_only,
    current_setting('fsync')::bool AS fsync,
    current_setting('full_page_writes')::bool AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int AS most_sessions,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions
