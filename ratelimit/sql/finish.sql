-- Record that the slots were used. A slot that is recorded as used, or was given back, stays as it is.
UPDATE weir_ratelimit_slot
SET finished_at = clock_timestamp()
WHERE id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL
RETURNING id
