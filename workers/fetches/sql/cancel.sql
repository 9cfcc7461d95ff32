-- Cancel a fetch that no fetcher holds yet, and give its slot back.
WITH chosen AS (
    SELECT id, slot_id FROM fetches_fetch
    WHERE id = %(fetch)s AND state IN ('queued', 'reserved')
    FOR NO KEY UPDATE
), given_back AS (
    UPDATE ratelimit_slot SET released_at = clock_timestamp()
    FROM chosen
    WHERE ratelimit_slot.id = chosen.slot_id AND released_at IS NULL AND finished_at IS NULL
), moved AS (
    UPDATE fetches_fetch
    SET state = 'cancelled', finished_at = clock_timestamp(), lease_until = NULL, slot_id = NULL
    FROM chosen
    WHERE fetches_fetch.id = chosen.id
    RETURNING fetches_fetch.id
)
SELECT id FROM moved
