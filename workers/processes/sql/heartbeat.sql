-- Record the last heartbeat of a process, `ago` seconds ago, what it holds, and how long its round trips take. Returns
-- the row's id; nothing if the row was purged because the process had no heartbeat for too long.
-- Promises: `steady_since` is never before a time in which no heartbeat was written for longer than `gap` seconds,
-- whatever the cause: the process, its host, the network or PostgreSQL (status.sql relies on it).
UPDATE weir_processes_process
SET turned_at = greatest(turned_at, clock_timestamp() - make_interval(secs => greatest(%(ago)s::float8, 0))),
    steady_since = CASE
        WHEN turned_at > clock_timestamp() - make_interval(secs => %(gap)s::float8) THEN steady_since
        ELSE clock_timestamp() END,
    holds = %(holds)s,
    round_trip_s = %(round_trip)s,
    stopping_at = CASE WHEN %(stops)s::bool THEN coalesce(stopping_at, clock_timestamp()) ELSE stopping_at END
WHERE id = %(process)s
RETURNING id
