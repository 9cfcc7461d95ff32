-- Deletes up to `batch` effects that ended more than `older_than` seconds ago, with their resolutions. Effects that other
-- transactions hold locked are skipped. Promises: no effect is deleted that may have happened and is not settled, or whose
-- end is still to be told (on_done.py); and none while PostgreSQL's clock may be wrong (gate), because a deleted effect is
-- done again if it is asked for again.
WITH old AS MATERIALIZED (
    SELECT id
    FROM weir_effects_effect
    WHERE
        state IN ('done', 'failed', 'cancelled', 'expired')
        AND ended_at < statement_timestamp() - make_interval(secs => %(older_than)s::float8)
        AND (on_done = '' OR on_done_called_at >= ended_at)
        AND on_done_again_at IS NULL
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
    ORDER BY ended_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), said AS (
    DELETE FROM weir_effects_effectresolution WHERE effect_id = ANY (array(SELECT id FROM old))
), gone AS (
    DELETE FROM weir_effects_effect WHERE id = ANY (array(SELECT id FROM old)) RETURNING 1
)
SELECT count(*) AS deleted FROM gone
