-- Return the sessions that hold a lock for which other sessions of this database have waited for longer than `after`
-- seconds, and that do not wait themselves. If `exclusive` is true, also return sessions that hold an exclusive lock on
-- a table. Process 0 stands for all prepared transactions. Reads only.
--
-- waiting  the sessions that wait
-- holder   the sessions for whose locks they wait, and how long the longest wait is
WITH waiting AS MATERIALIZED (
    SELECT lock.pid, max(extract(epoch FROM clock_timestamp() - lock.waitstart))::float8 AS waits_s
    FROM pg_locks AS lock
    JOIN pg_stat_activity AS session ON session.pid = lock.pid AND session.datname = current_database()
    WHERE NOT lock.granted
    GROUP BY lock.pid
), holder AS (
    SELECT pid, count(DISTINCT waits_for) AS sessions, max(waits_s) AS waits_s
    FROM (
        SELECT blocker AS pid, waiting.pid AS waits_for, waits_s
        FROM waiting CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocker
        WHERE waits_s > %(after)s::float8
        UNION ALL
        SELECT pid, NULL, NULL
        FROM pg_locks
        WHERE %(exclusive)s::bool AND granted AND locktype = 'relation' AND mode = 'AccessExclusiveLock'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS found
    WHERE pid NOT IN (SELECT waiting.pid FROM waiting)
    GROUP BY pid
)
SELECT
    holder.pid, coalesce(application_name, '') AS application_name, coalesce(usename, '') AS role,
    coalesce(state, '') AS state, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS open_s,
    sessions, coalesce(waits_s, 0)::float8 AS waits_s
FROM holder
LEFT JOIN pg_stat_activity AS session USING (pid)
ORDER BY sessions DESC, waits_s DESC, pid
LIMIT %(most)s
