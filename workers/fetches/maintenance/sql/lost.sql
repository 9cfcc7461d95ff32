-- Find held fetches whose lease ran out: their message was lost, or their holder died.
-- Read in the order of the index fetch_held, without which a plan that reads all fetches can look cheaper; the clock is
-- read once, for the leases to be compared within the index. In the order of the ids: those who store lock in it.
SELECT *
FROM (
    SELECT id, slot_id, state, attempts, max_attempts
    FROM fetches_fetch
    WHERE state IN ('reserved', 'running') AND lease_until < (SELECT clock_timestamp())
    ORDER BY site_id, lease_until
    LIMIT %(batch)s
) AS lost
ORDER BY id
