-- Find held fetches whose lease ran out: their message was lost, or their fetcher died. A fetch that another
-- transaction has locked is left to the next sweep (skip locked, docs/explanation/sql.md), because waiting would delay
-- all others. A fetch that a fetcher had in hand is marked (sql/take_in_hand.sql). It explains the loss of the other
-- fetches that the fetcher held, which are not at fault. The fetch in hand is returned last, after all of the others,
-- so that its mark is there as long as one of them is still to be judged.
-- Read in the order of the index weir_fetch_held (index order, one clock: docs/explanation/sql.md). Returned in the
-- order of the ids, in which store.sql locks the fetches.
--
-- lost     the held fetches whose lease ran out
-- holders  whether each process has a fetch in hand, and others; not read unless a running fetch is lost
WITH lost AS MATERIALIZED (
    SELECT id, slot_id, state, attempts, max_attempts, losses, in_hand, claimed_by
    FROM weir_fetches_fetch
    WHERE state IN ('reserved', 'running') AND lease_until < (SELECT clock_timestamp())
    ORDER BY site_id, lease_until
    LIMIT %(most)s
    FOR NO KEY UPDATE SKIP LOCKED
), holders AS MATERIALIZED (
    SELECT claimed_by, bool_or(in_hand) AS has_one_in_hand, bool_or(NOT in_hand) AS has_others
    FROM (
        SELECT claimed_by, in_hand
        FROM weir_fetches_fetch
        WHERE state = 'running' AND EXISTS (SELECT FROM lost WHERE state = 'running')
        ORDER BY site_id, lease_until
        OFFSET 0
    ) AS held
    GROUP BY claimed_by
)
SELECT
    id, slot_id, state, attempts, max_attempts, losses, in_hand,
    NOT in_hand AND coalesce(has_one_in_hand, false) AS is_explained
FROM lost
LEFT JOIN holders USING (claimed_by)
WHERE NOT in_hand OR NOT coalesce(has_others, false)
ORDER BY id
