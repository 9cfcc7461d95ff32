-- Open the gate: from now on, the history that PostgreSQL has is the known one. Where it had forgotten something
-- (`went_back`), the number goes beyond all that any process may remember. Returns the number.
UPDATE timeline_knowntimeline
SET timeline = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    cluster = (SELECT system_identifier FROM pg_control_system())
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()),
    number = greatest(number, %(known)s::bigint) + CASE WHEN %(went_back)s::bool THEN %(jump)s::bigint ELSE 0 END,
    numbered_at = CASE WHEN %(went_back)s::bool THEN clock_timestamp() ELSE numbered_at END,
    went_back_at = CASE WHEN %(went_back)s::bool THEN clock_timestamp() ELSE went_back_at END,
    closed_because = '',
    steps = steps + CASE WHEN step_s IS NULL THEN 0 ELSE 1 END,
    step_s = NULL,
    lease_until = NULL
RETURNING number
