-- Read all processes, and the state of each: alive, stopping, silent (no heartbeat for `silent` seconds, even if it is
-- stopping), or gone (silent, and replaced by a later process of the same kind and name).
--
-- Promises: `is_lost` is true only for a process that could have written a heartbeat. Such a process is silent,
-- although a witness, another process, has written its heartbeats for `witness` seconds without a gap. After a time in
-- which PostgreSQL was away, or the whole machine was suspended, there is no witness until all processes have had
-- `witness` seconds to write a heartbeat.
--
-- clock    the time, the same for all rows
-- witness  whether a witness exists
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
