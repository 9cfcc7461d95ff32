-- Find held fetches whose lease ran out: their message was lost, or their fetcher died. Reads only.
-- By the index fetch_held (index order, one clock: docs/explanation/sql.md); returned in the order of the ids, in which
-- store.sql locks them.
SELECT *
FROM (
    SELECT id, slot_id, state, attempts, max_attempts
    FROM fetches_fetch
    WHERE state IN ('reserved', 'running') AND lease_until < (SELECT clock_timestamp())
    ORDER BY site_id, lease_until
    LIMIT %(batch)s
) AS lost
ORDER BY id
