-- Read all processes, and the state of each: alive, stopping, silent (no heartbeat for `silent` seconds, stopping or
-- not), or gone (silent, and replaced by a later process of its name).
-- Promises: `is_lost` is true only of a process that could have had a heartbeat: it is silent, and some witness has
-- written its heartbeats for `witness` seconds without a gap. After a time in which PostgreSQL was away, or in which
-- the whole machine was suspended, there is no witness until all others have had that long to write one.
--
-- clock    the same now for all
-- witness  whether there is one
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), witness AS MATERIALIZED (
    SELECT EXISTS (
        SELECT
        FROM weir_processes_process, clock
        WHERE turned_at > now - make_interval(secs => %(gap)s::float8)
            AND steady_since < now - make_interval(secs => %(witness)s::float8)
    ) AS is_there
), process AS MATERIALIZED (
    SELECT weir_processes_process.*, now, turned_at < now - make_interval(secs => %(silent)s::float8) AS is_silent
    FROM weir_processes_process, clock
)
SELECT
    id, kind, name, host, pid, version, holds, started_at, turned_at,
    extract(epoch FROM now - started_at)::float8 AS age_s,
    extract(epoch FROM now - turned_at)::float8 AS silent_s,
    is_silent AND witness.is_there AS is_lost,
    CASE
        WHEN is_silent AND EXISTS (
            SELECT FROM weir_processes_process AS later
            WHERE later.kind = process.kind AND later.name = process.name AND later.id > process.id
        ) THEN 'gone'
        WHEN is_silent THEN 'silent'
        WHEN stopping_at IS NOT NULL THEN 'stopping'
        ELSE 'alive'
    END AS state
FROM process, witness
ORDER BY kind, name, id
