-- Return the session whose snapshot is the oldest, if there is one beside this session's. Reads only.
-- Sessions of others show as such to a role that may see them (pg_read_all_stats).
SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    AND backend_type <> 'autovacuum worker'
ORDER BY xact_start
LIMIT 1
