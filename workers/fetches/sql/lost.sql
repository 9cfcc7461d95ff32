-- Find held fetches whose lease ran out: their message was lost, or their holder died.
SELECT id, slot_id, state, attempts, max_attempts
FROM fetches_fetch
WHERE state IN ('reserved', 'running') AND lease_until < clock_timestamp()
ORDER BY id
LIMIT %(batch)s
