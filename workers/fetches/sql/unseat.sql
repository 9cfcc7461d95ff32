-- Queue again what has taken the place of a cancelled fetch in a slot whose holder had let go of it before it heard of
-- that, and gives it back now. Asked by the holder. Returns the lanes.
UPDATE fetches_fetch
SET state = 'queued', slot_id = NULL, lease_until = NULL
WHERE slot_id = ANY(%(slots)s) AND state = 'running'
RETURNING site_id
