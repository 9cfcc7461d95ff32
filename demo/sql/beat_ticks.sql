-- Whether a beat holds the lock of the one that ticks (workers.beat).
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = %(lock)s AND granted
