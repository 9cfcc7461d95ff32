-- Record that a process runs, and its first heartbeat. Returns the row's id.
INSERT INTO weir_processes_process (kind, name, host, pid, version, holds, round_trip_s)
VALUES (%(kind)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(holds)s, %(round_trip)s)
RETURNING id
