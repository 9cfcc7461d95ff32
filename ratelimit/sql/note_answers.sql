-- Record that the sites of these slots have answered: they are not silent any more. Only an answer to a start that was
-- reserved after the last refusal counts. Sites are locked in the order of their ids (site first).
WITH answered AS MATERIALIZED (
    SELECT site_id, max(id) AS slot FROM weir_ratelimit_slot WHERE id = ANY(%(slots)s) GROUP BY site_id
), locked AS MATERIALIZED (
    SELECT id, backed_off_slot
    FROM weir_ratelimit_site
    WHERE id = ANY(ARRAY(SELECT site_id FROM answered))
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE weir_ratelimit_site AS site
SET is_silent = false
FROM locked
JOIN answered ON answered.site_id = locked.id
WHERE site.id = locked.id AND site.is_silent AND answered.slot > locked.backed_off_slot
RETURNING site.id
