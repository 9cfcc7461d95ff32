-- Record a heartbeat of a process `ago` seconds ago, how much the process holds, and how long its round trips take.
-- Returns the row's id, or nothing if the row was purged because the process had no heartbeat for too long.
--
-- Promises: if the process wrote no heartbeat for longer than `gap` seconds, `steady_since` is after that time,
-- whatever the cause was: the process, its host, the network or PostgreSQL (status.sql relies on that).
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
