-- Move fetches that are queued at the sites `losers`, or reserved there in `slots`, to the sites `gainers`, to which
-- their hosts belong now. They are queued there, in their old places. Their slots are given back.
-- Promises: a fetch that has another state, slot or site by now is left alone (fenced write). Returns the new sites.
--
-- stray   the arrays as rows
-- moved   the fetches, at their new sites
-- slots   their slots
WITH stray AS MATERIALIZED (
    SELECT *
    FROM unnest(%(ids)s::bigint[], %(slots)s::bigint[], %(losers)s::bigint[], %(gainers)s::bigint[])
        AS t (id, slot_id, loser, gainer)
), locked AS MATERIALIZED (
    SELECT id FROM weir_fetches_fetch WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE
), moved AS (
    UPDATE weir_fetches_fetch AS job
    SET site_id = stray.gainer, state = 'queued', slot_id = NULL, lease_until = NULL,
        share = weir_fetches_share_at(job.share, job.priority, stray.gainer)
    -- True condition (docs/explanation/sql.md).
    FROM (SELECT * FROM stray WHERE id = abs(id) AND id = ANY(ARRAY(SELECT id FROM locked))) AS stray
    WHERE job.id = stray.id AND job.site_id = stray.loser
        AND (job.state = 'queued' AND stray.slot_id IS NULL OR job.state = 'reserved' AND job.slot_id = stray.slot_id)
    RETURNING job.site_id, stray.slot_id
), slots AS (
    UPDATE weir_ratelimit_slot_use SET released_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT slot_id FROM moved WHERE slot_id IS NOT NULL)) AND released_at IS NULL AND finished_at IS NULL
)
SELECT site_id FROM moved
