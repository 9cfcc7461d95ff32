-- Ask PostgreSQL about its history, as the gate does (look.sql), to see whether PostgreSQL answers. Reads none of
-- Weir's tables, because they may not exist yet. A standby writes no write-ahead log, and so has no insert position.
SELECT
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END AS timeline,
    (SELECT system_identifier FROM pg_control_system()) AS cluster
