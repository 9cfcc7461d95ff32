-- Read one fetch with its slot, the process that claimed it, and the first `most` bytes of its body. Reads only.
-- The first slot of a run says when the run was claimed; that slot has the lowest id of the run (weir_ratelimit_slot).
-- Row look-up (docs/explanation/sql.md).
SELECT
    job.id, url, hop_url, redirects, state, coalesce(site.name, '') AS site, priority, coalesce(share, '') AS share, coalesce(reference, '') AS reference,
    attempts, max_attempts,
    method, max_redirects, CASE WHEN redirects > 0 THEN redirect_chain END AS redirect_chain, idempotency_key,
    octet_length(request.content) AS request_body_bytes, status_code, job.error, request_headers, job.headers, is_robots, token_client, endpoint_id, effect_id, job.created_at, not_before, due_since, started_at,
    job.finished_at, lateness_ms, elapsed_ms, on_done, on_done_called_at, on_done_again_at,
    unchanged_from_id AS unchanged_from, incomplete, correlation_id, coalesce(process.name, '') AS claimed_by,
    coalesce(batch.name, '') AS batch, job.batch_id,
    slot.start_time AS slot_at, slot.reserved_at, first.claimed_at,
    coalesce(octet_length(body.content), kept.size)::bigint AS body_bytes,
    substring(coalesce(body.content, kept.content) FROM 1 FOR %(most)s::int) AS body,
    body.fetch_id IS NOT NULL AND body.content IS NULL AND kept.size IS NULL AS body_is_deleted,
    coalesce(kept.storage, '') AS body_storage, coalesce(earlier.headers, job.headers) AS body_headers, now
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN LATERAL (SELECT * FROM weir_fetches_fetch WHERE id = %(fetch)s OFFSET 0) AS job
LEFT JOIN LATERAL (SELECT name FROM weir_ratelimit_site WHERE id = job.site_id OFFSET 0) AS site ON true
LEFT JOIN LATERAL (SELECT * FROM weir_ratelimit_slot WHERE id = job.slot_id OFFSET 0) AS slot ON true
LEFT JOIN LATERAL (
    SELECT claimed_at
    FROM weir_ratelimit_slot
    WHERE id BETWEEN slot.id - slot.run_size + 1 AND slot.id AND site_id = slot.site_id AND use_until = slot.use_until
        AND claimed_at IS NOT NULL
    ORDER BY id
    LIMIT 1
) AS first ON true
LEFT JOIN LATERAL (SELECT name FROM weir_processes_process WHERE id = job.claimed_by OFFSET 0) AS process ON true
LEFT JOIN LATERAL (SELECT name FROM weir_fetches_batch WHERE id = job.batch_id OFFSET 0) AS batch ON true
LEFT JOIN LATERAL (SELECT content FROM weir_fetches_requestbody WHERE fetch_id = job.id OFFSET 0) AS request ON true
LEFT JOIN LATERAL (
    SELECT fetch_id, content, sha256
    FROM weir_fetches_fetchbody
    WHERE fetch_id = coalesce(job.unchanged_from_id, job.id)
    OFFSET 0
) AS body ON true
LEFT JOIN LATERAL (
    SELECT content, size, storage FROM weir_fetches_keptbody WHERE sha256 = body.sha256 OFFSET 0
) AS kept ON true
LEFT JOIN LATERAL (SELECT headers FROM weir_fetches_fetch WHERE id = job.unchanged_from_id OFFSET 0) AS earlier ON true
