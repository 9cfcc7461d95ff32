-- Queue again the successors of cancelled fetches, because the fetcher gives their slots back: it ended the cancelled
-- fetches before it heard of the successors. Run by the fetcher that holds the slots. Returns the successors' sites.
WITH found AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(slots)s::bigint[]) AS let_go (slot_id)
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT id FROM weir_fetches_fetch WHERE slot_id = let_go.slot_id AND lease_until IS NOT NULL OFFSET 0
    ) AS job
)
UPDATE weir_fetches_fetch
SET state = 'queued', slot_id = NULL, lease_until = NULL
WHERE id = ANY(ARRAY(SELECT id FROM found)) AND slot_id = ANY(%(slots)s) AND finished_at IS NULL AND state <> 'reserved'
RETURNING site_id
