-- Ask PostgreSQL of its history what the gate asks (look.sql), to see whether it has an answer. Reads none of Weir's tables:
-- they may not be there yet. A standby, which writes no log, has no place in one.
SELECT
    CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END AS timeline,
    (SELECT system_identifier FROM pg_control_system()) AS cluster
