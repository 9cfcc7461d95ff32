-- Give unused slots back. Returns those that were open: no slot is given back twice, or after it was used.
UPDATE weir_ratelimit_slot
SET released_at = clock_timestamp()
WHERE id = ANY(%(slots)s) AND finished_at IS NULL AND released_at IS NULL
RETURNING id
