-- Return what has kept PostgreSQL from removing dead rows for longest, one row for each kind: sessions, which have a
-- `pid`; prepared transactions; replication slots; and standbys without a slot. `name` is the name that an operator
-- knows: an application name, a transaction's gid or a slot's name. Reads only.
--
-- The age of a session's or a prepared transaction is in `seconds` and in `transactions`. The age of a slot or a
-- standby is only in `transactions`.
-- A transaction that has written keeps dead rows because of its own id, even between two statements, when it has no
-- snapshot. Sessions of other roles are found only by a role that may see them (pg_read_all_stats).
SELECT DISTINCT ON (kind) kind, pid, name, seconds, transactions
FROM (
    SELECT
        CASE WHEN xact_start IS NULL THEN 'standby' ELSE 'session' END AS kind,
        pid,
        application_name AS name,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
        greatest(age(backend_xmin), age(backend_xid)) AS transactions
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
        AND backend_type <> 'autovacuum worker'
    UNION ALL
    SELECT 'prepared', NULL, gid, extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)
    FROM pg_prepared_xacts
    UNION ALL
    SELECT 'slot', NULL, slot_name::text, NULL, age(xmin)
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL
) AS holder
ORDER BY kind, seconds DESC, transactions DESC
