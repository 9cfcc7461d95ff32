-- Let the generation grow, if it is older than `every` seconds and the history is known. Return the row, and what
-- PostgreSQL itself says about its history. `known` is the highest generation that the caller has seen.
-- The second condition on `numbered_at` lets the generation grow after the clock was set back.
--
-- actual  what PostgreSQL says
-- grown   the generation, if it grew
WITH actual AS MATERIALIZED (
    SELECT
        left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline,
        (SELECT system_identifier FROM pg_control_system())
            || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS cluster,
        current_setting('synchronous_standby_names') <> ''
            AND current_setting('synchronous_commit') IN ('on', 'remote_apply', 'remote_write') AS is_synchronous
), grown AS (
    UPDATE weir_timeline_knowntimeline AS seen
    SET number = seen.number + 1, numbered_at = clock_timestamp(), is_synchronous = actual.is_synchronous
    FROM actual
    WHERE seen.timeline = actual.timeline AND seen.cluster = actual.cluster AND seen.closed_because = ''
        AND seen.number >= %(known)s::bigint
        AND (
            seen.numbered_at < clock_timestamp() - make_interval(secs => %(every)s::float8)
            OR seen.numbered_at > clock_timestamp()
        )
    RETURNING seen.number
)
SELECT
    seen.timeline, seen.cluster, coalesce((SELECT number FROM grown), seen.number) AS generation, seen.numbered_at,
    seen.is_synchronous, seen.closed_because,
    actual.timeline AS actual_timeline, actual.cluster AS actual_cluster,
    extract(epoch FROM statement_timestamp())::float8 AS clock_s, seen.steps, %(known)s::bigint AS known
FROM weir_timeline_knowntimeline AS seen, actual
