-- A row if a beat process holds the lock with which it ticks (workers.beat).
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = %(lock)s AND granted
