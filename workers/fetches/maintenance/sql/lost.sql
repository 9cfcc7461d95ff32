-- Find held fetches whose lease ran out: their message was lost, or their fetcher died. Reads only.
-- Of those that a fetcher had in hand, that is noted (fetcher/results/sql/take_in_hand.sql).
-- By the index fetch_held (index order, one clock: docs/explanation/sql.md); returned in the order of the ids, in which
-- store.sql locks them.
SELECT *
FROM (
    SELECT id, slot_id, state, attempts, max_attempts, losses, in_hand
    FROM fetches_fetch
    WHERE state IN ('reserved', 'running') AND lease_until < (SELECT clock_timestamp())
    ORDER BY site_id, lease_until
    LIMIT %(batch)s
) AS lost
ORDER BY id
