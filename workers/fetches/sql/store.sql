-- Store the outcomes of fetches: their states, slots and bodies (one statement, docs/explanation/sql.md).
-- Promises: a fetch is changed only by the holder of the slot that it still has (fenced write). A fetch that sweep took
-- back, or that was cancelled, is left alone. Returns the fetches that were changed.
-- `losses` counts only fetches that a fetcher had claimed. If a message was lost, the slots of its fetches were not
-- used.
--
-- outcome  the arrays as rows
-- moved    the fetches, in their new states
-- slots    their slots, used or given back
-- wanted   the bodies that are kept once, without repetitions
-- once     those of them that may be: others go into the rows of their fetches
-- known    those that are kept already, locked, so that purge leaves them alone
-- kept     the others, in the order of their hashes (lock order, docs/explanation/sql.md)
-- bodies   the bodies of the fetches, whole or incomplete; note_robots.sql stores what a robots.txt says
WITH outcome AS MATERIALIZED (
    SELECT *
    FROM unnest(
        %(fetch_id)b::bigint[], %(slot_id)b::bigint[], %(state)b::text[], %(attempted)b::bool[], %(slot_used)b::bool[],
        %(delay_s)b::float8[], %(error)b::text[], %(status_code)b::int[], %(headers)b::text[], %(etag)b::text[],
        %(last_modified)b::text[], %(lateness_ms)b::float8[], %(elapsed_ms)b::float8[], %(hop_url)b::text[],
        %(hop_site)b::bigint[], %(content)b::bytea[], %(unchanged_from)b::bigint[], %(incomplete)b::text[],
        %(keeps_place)b::bool[], %(is_lost)b::bool[], %(has_left_origin)b::bool[],
        %(has_become_get)b::bool[], %(sha256)b::bytea[]
    ) AS t (
        fetch_id, slot_id, state, attempted, slot_used,
        delay_s, error, status_code, headers, etag,
        last_modified, lateness_ms, elapsed_ms, hop_url,
        hop_site, content, unchanged_from, incomplete, keeps_place, is_lost, has_left_origin,
        has_become_get, sha256
    )
), moved AS (
    UPDATE weir_fetches_fetch AS job
    SET
        state = outcome.state,
        slot_id = CASE WHEN outcome.state = 'queued' THEN NULL ELSE job.slot_id END,
        lease_until = NULL,
        attempts = job.attempts + outcome.attempted::int,
        losses = job.losses + (outcome.is_lost AND outcome.slot_used)::int,
        in_hand = false,
        not_before = CASE WHEN outcome.delay_s > 0
            THEN clock_timestamp() + make_interval(secs => outcome.delay_s) ELSE coalesce(job.due_since, job.not_before) END,
        -- A fetch that waits for its robots.txt (sql/wake_waiting_for_robots.sql), or for a token, keeps its place.
        due_since = CASE WHEN outcome.keeps_place THEN coalesce(job.due_since, job.not_before) END,
        finished_at = CASE WHEN outcome.state = 'queued' THEN NULL ELSE clock_timestamp() END,
        started_at = coalesce(
            slot.start_time + make_interval(secs => outcome.lateness_ms / 1000), job.started_at
        ),
        lateness_ms = coalesce(outcome.lateness_ms, job.lateness_ms),
        elapsed_ms = coalesce(outcome.elapsed_ms, job.elapsed_ms),
        error = outcome.error,
        status_code = coalesce(outcome.status_code, job.status_code),
        headers = coalesce(outcome.headers::jsonb, job.headers),
        incomplete = outcome.incomplete,
        unchanged_from_id = outcome.unchanged_from,
        etag = outcome.etag,
        last_modified = outcome.last_modified,
        hop_url = CASE WHEN outcome.hop_site IS NULL THEN job.hop_url ELSE outcome.hop_url END,
        has_left_origin = job.has_left_origin OR (outcome.has_left_origin AND outcome.hop_site IS NOT NULL),
        has_become_get = job.redirects > 0 AND job.has_become_get OR (outcome.has_become_get AND outcome.hop_site IS NOT NULL),
        redirect_chain = CASE WHEN outcome.hop_site IS NULL THEN job.redirect_chain ELSE
            CASE WHEN job.redirects > 0 THEN coalesce(job.redirect_chain, '[]') ELSE '[]' END
                || jsonb_build_array(jsonb_build_array(outcome.status_code, outcome.hop_url)) END,
        redirects = job.redirects + (outcome.hop_site IS NOT NULL)::int,
        site_id = coalesce(outcome.hop_site, job.site_id),
        share = CASE WHEN outcome.state <> 'queued' THEN job.share
            ELSE weir_fetches_share_at(job.share, job.priority, coalesce(outcome.hop_site, job.site_id)) END
    -- True condition (docs/explanation/sql.md).
    FROM (SELECT * FROM outcome WHERE fetch_id = abs(fetch_id)) AS outcome
    LEFT JOIN weir_ratelimit_slot AS slot ON slot.id = outcome.slot_id
    WHERE job.id = outcome.fetch_id AND job.slot_id = outcome.slot_id
        AND (NOT outcome.is_lost OR job.lease_until < clock_timestamp())
        AND job.finished_at IS NULL  -- so it is held; for a condition on `state`, all held fetches might be read
    RETURNING
        job.id, job.url, job.hop_url, job.state, job.site_id, job.on_done, job.is_robots, job.correlation_id,
        outcome.content, outcome.sha256, outcome.slot_id AS used_slot_id, outcome.slot_used
), slots AS (  -- by id alone: with more conditions, old statistics may make a scan of all slots look cheap
    UPDATE weir_ratelimit_slot_use AS slot
    SET finished_at = CASE WHEN moved.slot_used THEN clock_timestamp() ELSE slot.finished_at END,
        released_at = CASE WHEN moved.slot_used THEN slot.released_at ELSE clock_timestamp() END
    FROM moved
    WHERE slot.id = moved.used_slot_id
), wanted AS MATERIALIZED (
    SELECT *
    FROM unnest(
        %(kept_sha256)b::bytea[], %(kept_content)b::bytea[], %(kept_size)b::bigint[], %(kept_storage)b::text[],
        %(kept_file)b::text[]
    ) AS t (sha256, content, size, storage, file)
    WHERE sha256 = ANY(ARRAY(SELECT sha256 FROM moved WHERE sha256 IS NOT NULL AND NOT is_robots))
), once AS MATERIALIZED (  -- a version that knows no kept bodies may still read what is stored (maintenance/bodies.py)
    SELECT sha256
    FROM wanted
    WHERE file <> '' OR (
        SELECT turned_at > clock_timestamp() - make_interval(secs => %(keeping)s::float8)
        FROM weir_fetches_bodykeeping
        WHERE id = 1
    )
), known AS MATERIALIZED (
    SELECT sha256 FROM weir_fetches_keptbody
    WHERE sha256 = ANY(ARRAY(SELECT sha256 FROM once))
    ORDER BY sha256
    FOR KEY SHARE
), kept AS (
    INSERT INTO weir_fetches_keptbody (sha256, content, size, storage, file)
    SELECT sha256, content, size, storage, file
    FROM wanted
    WHERE sha256 = ANY(ARRAY(SELECT sha256 FROM once)) AND sha256 <> ALL(ARRAY(SELECT sha256 FROM known))
    ORDER BY sha256
    ON CONFLICT (sha256) DO NOTHING
), bodies AS (
    INSERT INTO weir_fetches_fetchbody (fetch_id, content, sha256)
    SELECT moved.id, CASE WHEN once.sha256 IS NULL THEN coalesce(moved.content, wanted.content) END, once.sha256
    FROM moved
    LEFT JOIN wanted ON wanted.sha256 = moved.sha256
    LEFT JOIN once ON once.sha256 = moved.sha256
    WHERE (moved.content IS NOT NULL OR moved.sha256 IS NOT NULL) AND NOT is_robots
    ON CONFLICT (fetch_id) DO UPDATE SET content = EXCLUDED.content, sha256 = EXCLUDED.sha256
)
SELECT
    id, url, CASE WHEN hop_url = '' THEN url ELSE hop_url END AS hop_url, state, site_id, on_done, is_robots,
    correlation_id
FROM moved
