-- Correct the times of heartbeats of all processes, after PostgreSQL's clock was stepped by `step`.
UPDATE weir_processes_process
SET turned_at = least(turned_at + %(step)s, clock_timestamp()),
    steady_since = least(steady_since + %(step)s, clock_timestamp())
