-- Record that the slots were used. A slot that was recorded as used before, or was given back, does not change.
UPDATE weir_ratelimit_slot
SET finished_at = clock_timestamp()
WHERE id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL
RETURNING id
