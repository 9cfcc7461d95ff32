-- Queue failed fetches again as if they were new, each at its own URL: `hop_urls` has the URLs as they are sent, and
-- `sites` their sites. A part of a body that was kept is deleted.
-- Promises: a fetch that is no longer failed is left alone. So is a fetch whose dedupe key an unfinished fetch has, or
-- an older fetch of `ids`. Returns how many had failed, how many of these are queued now, and for which sites.
WITH failed AS MATERIALIZED (
    SELECT job.id, job.dedupe_key, wanted.hop_url, wanted.site_id
    FROM weir_fetches_fetch AS job
    JOIN unnest(%(ids)s::bigint[], %(hop_urls)s::text[], %(sites)s::bigint[]) AS wanted (id, hop_url, site_id)
        ON wanted.id = job.id
    WHERE job.id = ANY(%(ids)s) AND job.state = 'failed'
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
), chosen AS MATERIALIZED (
    SELECT DISTINCT ON (coalesce(dedupe_key::text, id::text)) id, hop_url, site_id
    FROM failed
    -- First row (docs/explanation/sql.md).
    WHERE (
        SELECT id FROM weir_fetches_fetch AS other
        WHERE other.dedupe_key = failed.dedupe_key AND other.state IN ('queued', 'reserved', 'running')
    ) IS NULL
    ORDER BY coalesce(dedupe_key::text, id::text), id
), moved AS (
    UPDATE weir_fetches_fetch AS job
    SET state = 'queued', hop_url = chosen.hop_url, has_left_origin = DEFAULT, site_id = chosen.site_id,
        share = weir_fetches_share_at(job.share, job.priority, chosen.site_id),
        redirects = DEFAULT, redirect_chain = NULL, has_become_get = DEFAULT,
        attempts = DEFAULT, losses = DEFAULT, not_before = clock_timestamp(), slot_id = NULL, lease_until = NULL,
        -- A request that changes something may have reached its site: the next one is not the first (claim.sql, was_sent).
        started_at = CASE WHEN job.method NOT IN ('GET', 'HEAD') THEN
            coalesce(job.started_at, CASE WHEN job.losses > 0 THEN job.finished_at END) END,
        finished_at = NULL, lateness_ms = NULL, elapsed_ms = NULL,
        status_code = NULL, unchanged_from_id = NULL, headers = DEFAULT,
        etag = DEFAULT, last_modified = DEFAULT, error = DEFAULT, incomplete = DEFAULT, on_done_called_at = NULL,
        on_done_again_at = NULL
    FROM chosen
    WHERE job.id = chosen.id
    RETURNING job.id, job.site_id
), bodies AS (
    DELETE FROM weir_fetches_fetchbody WHERE fetch_id = ANY(ARRAY(SELECT id FROM moved))
)
SELECT
    (SELECT count(*) FROM failed) AS failed,
    (SELECT count(*) FROM moved) AS queued,
    array(SELECT DISTINCT site_id FROM moved) AS sites
