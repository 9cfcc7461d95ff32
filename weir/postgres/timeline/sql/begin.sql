-- Write the missing row: PostgreSQL's present history becomes the known one, with this generation. All tables were
-- emptied, so the history lacks nothing that a process could rely on.
INSERT INTO weir_timeline_knowntimeline (id, timeline, cluster, number, numbered_at, is_synchronous, closed_because)
SELECT
    1, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (SELECT system_identifier FROM pg_control_system())
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()),
    %(generation)s, clock_timestamp(), false, ''
ON CONFLICT (id) DO NOTHING
