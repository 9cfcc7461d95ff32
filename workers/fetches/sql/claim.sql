-- Claim the fetches of one message's slots, each once: reserved -> running, with a lease that outlasts the slot and the
-- deadlines. A fetch whose run is over, or was recalled since, goes back to the queue instead, without an attempt being
-- counted.
-- Promises: a run has one holder, the claim that sets `claimed_at` in the run's first slot. Two holders would each
-- keep the interval between their own starts only. A message that comes twice, or late, claims nothing: it waits (lock
-- order) until the first claim has committed. If one of its slots has a successor that is still reserved, that fetch
-- goes back to the queue, and the slot is left empty, because its start lies within the first holder's run. A fetch may
-- also become the successor while this statement waits for the lock of the cancelled fetch: claim.py runs the statement
-- again if it returns fewer fetches than there are slots. A fetch that sweep took back, and for which dispatch reserved
-- again, has another slot.
-- A fetch that revalidates is returned with the validators of the last good result of the same URL, if retention
-- (purge_fetches.sql, purge_old_bodies.sql) keeps the body of that result until the lease is over.
-- Every row is found by row look-up (docs/explanation/sql.md): the fetches and slots of a message have just been
-- written.
--
-- found       the fetches that have these slots
-- locked      the same fetches, locked
-- named       the reserved ones among them, with their slots and sites
-- run         the first slot of each run that stands
-- unclaimed   the first slots that no claim has taken, locked
-- claimed     the same slots, taken
-- decided     which fetches may be requested
-- given_back  the slots of fetches that may not be requested because their run is over, or was recalled
-- left_empty  the slots of fetches that may not be requested because their run was claimed before
-- moved       the fetches' new states
WITH found AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(slots)s::bigint[]) AS wanted (slot_id)
    CROSS JOIN LATERAL (
        SELECT id FROM weir_fetches_fetch WHERE slot_id = wanted.slot_id AND lease_until IS NOT NULL OFFSET 0
    ) AS job
), locked AS MATERIALIZED (
    SELECT id, slot_id, site_id, state
    FROM weir_fetches_fetch
    WHERE id = ANY(ARRAY(SELECT id FROM found))
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
        AND (SELECT set_config('weir.sends_methods', 'on', true)) = 'on'  -- weir_fetches_keep_away lets `moved` pass
        AND (SELECT set_config('weir.begins_effects', 'on', true)) = 'on'  -- and so does weir_fetches_keep_once_away
    ORDER BY id
    FOR NO KEY UPDATE
), named AS MATERIALIZED (
    SELECT
        locked.id, locked.slot_id, locked.site_id,
        slot.start_time, slot.use_until, slot.at_once,
        -- With a burst, the starts of a run lie before the time that the run takes of the site's clock.
        least(slot.use_until, greatest(
            max(slot.start_time) OVER (PARTITION BY locked.site_id, slot.use_until)
                + site.effective_grace + make_interval(secs => %(added_grace)s::float8),
            slot.use_until - weir_ratelimit_tolerance(site.burst, site.effective_interval)
        )) AS start_until,
        site.name AS site, site.effective_interval, site.burst, site.refusing, site.is_silent, site.headers AS site_headers,
        site.query AS site_query, site.network AS site_network,
        coalesce(site.obeys_robots, %(obey)s::bool) AS obeys_robots,
        slot.use_until > statement_timestamp() AND locked.slot_id > site.recalled_slot AS stands
    FROM locked
    CROSS JOIN LATERAL (
        SELECT start_time, use_until, at_once
        FROM weir_ratelimit_slot
        WHERE id = locked.slot_id
        OFFSET 0
    ) AS slot
    CROSS JOIN LATERAL (  -- newest version
        SELECT name, effective_interval, effective_grace, burst, recalled_slot, obeys_robots, refusing, is_silent, headers, query, network
        FROM weir_ratelimit_site
        WHERE (id, name) >= (locked.site_id, '') AND id <= locked.site_id
        ORDER BY id DESC
        LIMIT 1
    ) AS site
    WHERE locked.state = 'reserved' AND locked.slot_id = ANY(%(slots)s)
), run AS MATERIALIZED (  -- a run is never split over two messages
    SELECT min(slot.id) AS first_slot
    FROM weir_ratelimit_slot AS slot
    WHERE slot.id = ANY(%(slots)s)
        AND (slot.site_id, slot.use_until) IN (SELECT site_id, use_until FROM named WHERE stands)
    GROUP BY slot.site_id, slot.use_until
), unclaimed AS MATERIALIZED (
    SELECT id
    FROM weir_ratelimit_slot_use
    WHERE id = ANY(ARRAY(SELECT first_slot FROM run)) AND claimed_at IS NULL
    ORDER BY id
    FOR NO KEY UPDATE
), claimed AS (
    UPDATE weir_ratelimit_slot_use SET claimed_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT id FROM unclaimed))
    RETURNING site_id, use_until
), decided AS MATERIALIZED (
    SELECT named.*, stands AND claimed.site_id IS NOT NULL AS usable
    FROM named
    LEFT JOIN claimed USING (site_id, use_until)
), given_back AS (
    UPDATE weir_ratelimit_slot_use SET released_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT slot_id FROM named WHERE NOT stands)) AND released_at IS NULL AND finished_at IS NULL
), left_empty AS (
    UPDATE weir_ratelimit_slot_use SET passed_on_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT slot_id FROM decided WHERE stands AND NOT usable)) AND passed_on_at IS NULL
), moved AS (
    UPDATE weir_fetches_fetch AS job
    SET state = CASE WHEN decided.usable THEN 'running' ELSE 'queued' END,
        slot_id = CASE WHEN decided.usable THEN job.slot_id END,
        claimed_by = CASE WHEN decided.usable THEN %(process)s::bigint END,
        in_hand = false,  -- the answer is still to come
        headers_key = weir_fetches_headers_key(
            CASE WHEN decided.site_query IS NULL THEN decided.site_headers
                ELSE jsonb_build_array(decided.site_headers, decided.site_query) END,
            job.request_headers, job.has_left_origin
        ),
        lease_until = CASE WHEN decided.usable THEN decided.start_until + make_interval(secs => %(lease)s::float8) END
    FROM decided
    WHERE job.id = decided.id
    RETURNING
        job.id, CASE WHEN job.hop_url = '' THEN job.url ELSE job.hop_url END AS url,
        job.redirects, job.attempts, job.max_attempts, job.losses, job.revalidate, job.is_robots, job.correlation_id,
        job.traceparent, CASE WHEN job.redirects > 0 THEN job.url ELSE '' END AS first_url,
        decided.slot_id, decided.start_time, decided.start_until, decided.use_until, decided.at_once, decided.site_id, decided.site,
        decided.start_until + make_interval(secs => %(lease)s::float8 - %(retention)s::float8) AS kept_since,
        decided.effective_interval, decided.burst, decided.refusing, decided.is_silent, decided.usable,
        decided.obeys_robots AND job.endpoint_id IS NULL AS obeys_robots, coalesce(decided.site_headers, '{}') AS site_headers,
        coalesce(decided.site_query, '{}') AS site_query, coalesce(job.request_headers, '{}') AS request_headers,
        job.has_left_origin, job.headers_key, job.method, job.redirects > 0 AND job.has_become_get AS has_become_get,
        job.idempotency_key, job.max_redirects, job.started_at IS NOT NULL OR job.losses > 0 AS was_sent,
        job.status_code IS NOT DISTINCT FROM 401 AS was_unauthorized, job.token_client,
        CASE WHEN job.token_client <> '' THEN job.dedupe_key END AS token_key, job.endpoint_id, decided.site_network,
        job.effect_id
)
SELECT
    moved.id, moved.url, redirects, attempts, max_attempts, is_robots, obeys_robots,
    slot_id, start_time, start_until, use_until, at_once, site_id, site,
    extract(epoch FROM effective_interval)::float8 AS interval_s, burst, refusing, is_silent, usable,
    good.id AS good_id, coalesce(good.etag, '') AS etag, coalesce(good.last_modified, '') AS last_modified,
    correlation_id, traceparent, first_url, losses, site_headers, site_query, request_headers, has_left_origin,
    method, has_become_get, idempotency_key, max_redirects, was_sent, was_unauthorized, token_client, token_key, endpoint_id,
    site_network, effect_id
FROM moved
LEFT JOIN LATERAL (
    SELECT id, etag, last_modified
    FROM weir_fetches_fetch AS result
    WHERE moved.revalidate AND md5(result.hop_url) = md5(moved.url) AND result.hop_url = moved.url
        AND result.state = 'done' AND result.status_code = 200 AND (result.etag <> '' OR result.last_modified <> '')
        AND NOT result.is_robots  -- a robots.txt has no stored body
        AND result.headers_key IS NOT DISTINCT FROM moved.headers_key  -- other headers may ask for another body
        AND (
            result.finished_at > moved.kept_since
            OR EXISTS (
                SELECT FROM weir_fetches_fetch AS later
                WHERE later.unchanged_from_id = result.id AND later.finished_at > moved.kept_since
            )
        )
    ORDER BY result.finished_at DESC
    LIMIT 1
) AS good ON true
ORDER BY start_time, slot_id
