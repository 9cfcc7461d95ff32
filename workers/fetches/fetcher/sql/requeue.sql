-- Queue again the successors of cancelled fetches in slots whose holder had let go of them before it heard of the
-- successors, and gives them back now. Asked by the holder. Returns the sites.
WITH found AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(slots)s::bigint[]) AS let_go (slot_id)
    CROSS JOIN LATERAL (  -- row look-up
        SELECT id FROM fetches_fetch WHERE slot_id = let_go.slot_id AND lease_until IS NOT NULL OFFSET 0
    ) AS job
)
UPDATE fetches_fetch
SET state = 'queued', slot_id = NULL, lease_until = NULL
WHERE id = ANY(ARRAY(SELECT id FROM found)) AND slot_id = ANY(%(slots)s) AND finished_at IS NULL AND state <> 'reserved'
RETURNING site_id
