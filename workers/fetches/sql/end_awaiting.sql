-- Ends up to `most` fetches that wait for what became of their effects, and whose effects have ended meanwhile, or
-- are deleted: their probes, or people, have said what became of them. Returns the ends. The year: HANDED_OVER in
-- effects/names.py.
UPDATE weir_fetches_fetch AS job
SET state = 'failed', finished_at = clock_timestamp(), error = found.error
FROM (
    SELECT waiting.id, 'no answer came, and its effect is '
        || coalesce(effect.state || ': ' || effect.last_reply, 'deleted') AS error
    FROM weir_fetches_fetch AS waiting
    LEFT JOIN weir_effects_effect AS effect ON effect.id = waiting.effect_id
    WHERE waiting.effect_id IS NOT NULL AND waiting.state = 'queued'
        AND waiting.not_before >= '8000-01-01 00:00:00+00'::timestamptz
        AND (effect.id IS NULL OR effect.state NOT IN ('pending', 'claimed', 'begun'))
    ORDER BY waiting.id
    LIMIT %(most)s
    FOR NO KEY UPDATE OF waiting SKIP LOCKED
) AS found
WHERE job.id = found.id
RETURNING job.id AS fetch, job.on_done, job.correlation_id
