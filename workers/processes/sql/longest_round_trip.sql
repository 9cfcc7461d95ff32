-- Return the longest round trip that processes with a heartbeat in the last `lives` seconds have reported. Reads only.
SELECT coalesce(max(round_trip_s), 0)::float8 AS seconds
FROM weir_processes_process
WHERE turned_at > statement_timestamp() - make_interval(secs => %(lives)s::float8)
