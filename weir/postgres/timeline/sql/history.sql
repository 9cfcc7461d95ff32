-- Ask PostgreSQL about its history, as the gate does (look.sql), to see whether it answers. Reads none of Weir's
-- tables: they may not be there yet. A standby writes no log, and so has no place in one.
SELECT
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END AS timeline,
    (SELECT system_identifier FROM pg_control_system()) AS cluster
