-- Give unused slots back. Returns the slots that were neither used nor given back before; the others do not change.
UPDATE weir_ratelimit_slot
SET released_at = clock_timestamp()
WHERE id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL
RETURNING id
