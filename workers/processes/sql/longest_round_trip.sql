-- Return the longest round trip of the processes that had a heartbeat in the last `lives` seconds. Reads only.
SELECT coalesce(max(round_trip_s), 0)::float8 AS seconds
FROM weir_processes_process
WHERE turned_at > statement_timestamp() - make_interval(secs => %(lives)s::float8)
