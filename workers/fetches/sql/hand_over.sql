-- Queues the fetch of an effect that is to be tried again: a failed fetch as if it were new, or one that waited for what
-- became of its effect. Another fetch is left alone. Returns the site of the fetch that is queued now.
-- The year: HANDED_OVER in effects/names.py.
WITH moved AS (
    UPDATE weir_fetches_fetch AS job
    SET state = 'queued', site_id = %(site)s, share = weir_fetches_share_at(job.share, job.priority, %(site)s),
        idempotency_key = CASE WHEN job.idempotency_key IS NOT NULL THEN %(key)s::uuid END,
        attempts = CASE WHEN job.state = 'failed' THEN 0 ELSE job.attempts END,
        losses = CASE WHEN job.state = 'failed' THEN 0 ELSE job.losses END,
        not_before = clock_timestamp(), slot_id = NULL, lease_until = NULL, finished_at = NULL,
        lateness_ms = NULL, elapsed_ms = NULL, status_code = NULL, headers = DEFAULT,
        error = DEFAULT, incomplete = DEFAULT, on_done_called_at = NULL, on_done_again_at = NULL
    WHERE id = %(fetch)s
        AND (state = 'failed' OR state = 'queued' AND not_before >= '8000-01-01 00:00:00+00'::timestamptz)
    RETURNING id, site_id
), bodies AS (
    DELETE FROM weir_fetches_fetchbody WHERE fetch_id = ANY(ARRAY(SELECT id FROM moved))
)
SELECT site_id FROM moved
