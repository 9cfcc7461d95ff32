-- Read whether this server is a standby, and whether it is read-only for this role. Reads only.
SELECT pg_is_in_recovery() AS is_standby, current_setting('default_transaction_read_only')::bool AS is_read_only
