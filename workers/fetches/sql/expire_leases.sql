-- End the leases of fetches that lost processes had claimed, so that sweep takes these fetches back now (lost.sql).
-- Returns how many leases were ended, by process.
-- Promises: a fetch whose run is not over keeps its lease. Its process may be alive again in the next moment, and could
-- still start the fetch in its slot, so until then no other fetch may get the slot. After the run's end (`use_until`)
-- no process starts anything in that run, lost or not. A fetch that has another slot by now is left alone (fenced
-- write), because its process was alive again.
-- The fetches are found by the index weir_fetch_held, which has a few seconds' worth of fetches.
--
-- found    the fetches that lost processes hold, with their slots
-- expired  those of them whose run is over
WITH found AS MATERIALIZED (
    SELECT id, slot_id
    FROM weir_fetches_fetch
    WHERE state = 'running' AND claimed_by = ANY(%(processes)s::bigint[])
        AND lease_until > clock_timestamp()
), over AS MATERIALIZED (
    SELECT found.id, found.slot_id
    FROM found
    CROSS JOIN LATERAL (
        SELECT use_until FROM weir_ratelimit_slot WHERE id = found.slot_id OFFSET 0
    ) AS slot
    WHERE slot.use_until < clock_timestamp()
    ORDER BY found.id
), locked AS MATERIALIZED (
    SELECT id
    FROM weir_fetches_fetch
    WHERE id = ANY(ARRAY(SELECT id FROM over))
    ORDER BY id
    FOR NO KEY UPDATE
), expired AS (
    UPDATE weir_fetches_fetch AS job
    SET lease_until = clock_timestamp()
    FROM (SELECT * FROM over WHERE id = ANY(ARRAY(SELECT id FROM locked))) AS over
    WHERE job.id = over.id AND job.slot_id = over.slot_id AND job.state = 'running'
        AND job.claimed_by = ANY(%(processes)s::bigint[])
    RETURNING job.claimed_by
)
SELECT claimed_by AS process, count(*) AS fetches FROM expired GROUP BY claimed_by
