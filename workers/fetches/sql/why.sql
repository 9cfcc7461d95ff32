-- Read one fetch, and all that can keep it waiting: its site, its slot, the robots.txt of its origin, and its place in
-- the queue. Reads only. `ahead` counts the due fetches that are before it in the queue, up to `most`. Of the fetches
-- with a higher priority, the first `most` are read, due or not; those that are not due do not count.
-- Every row is looked up by an index, or read in the order of one (index order, docs/explanation/sql.md).
--
-- clock   the database's time
-- job     the fetch, with the origin that it is requested from
-- in_turn  if the site has shares, which take turns: the fetches before it (weir_fetches_ahead_in_turn)
-- higher  queued fetches of the site with a higher priority, if it has no shares
-- equal   queued fetches of the site with the same priority that are before it in the queue
-- run     at a site with `max_concurrency`, the runs that still have held fetches, each with its starts
SELECT
    job.id, job.state, job.site_id, coalesce(site.name, '') AS site, job.origin, job.attempts, job.max_attempts,
    job.status_code, job.error, job.not_before, job.due_since IS NOT NULL AS keeps_place, job.finished_at,
    job.on_done, job.on_done_again_at, job.claimed_by, job.lease_until, slot.start_time AS slot_start, now,
    site.written_rate, site."interval", site.effective_interval, site.burst, site.max_concurrency, site.paused_until,
    site.backed_off_until, site.refused_until, site.backoff_error, site.backoff_reason, site.backoff_level,
    site.next_start, site.due_at, back_off, back_off IS NOT NULL AND site.is_silent AS is_silent,
    extract(epoch FROM site.spacing)::float8 AS spacing_s,
    extract(epoch FROM site.effective_grace)::float8 AS grace_s,
    extract(epoch FROM site.next_start - now)::float8 AS reserved_for_s,
    NOT job.is_robots AND job.token_client = '' AND job.endpoint_id IS NULL
        AND coalesce(site.obeys_robots, %(obey)s::bool) AS obeys_robots,
    file.state AS robots_state, file.error AS robots_error, file.expires_at AS robots_expires_at,
    asked.id AS robots_fetch, asked.state AS robots_fetch_state,
    job.endpoint_id, job.effect_id, job.share, coalesce(in_turn.shares, 0) AS other_shares,
    coalesce(in_turn.fetches, higher.due + equal.due, 0) AS ahead,
    coalesce(run.at_once, 0)::int AS at_once, coalesce(run.runs, '[]') AS held_runs
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN LATERAL (
    SELECT
        *, substring(CASE WHEN hop_url = '' THEN url ELSE hop_url END FROM '^[^/]*//[^/]*') AS origin,
        state = 'queued' AS is_queued
    FROM weir_fetches_fetch
    WHERE id = %(fetch)s
    OFFSET 0
) AS job
LEFT JOIN LATERAL (SELECT * FROM weir_ratelimit_site WHERE id = job.site_id OFFSET 0) AS site ON true
CROSS JOIN LATERAL (
    SELECT weir_ratelimit_held_state(
        NULL, site.backed_off_until, site.refused_until, site.backoff_error, site.is_silent, true, now
    ) AS back_off
) AS held
LEFT JOIN LATERAL (SELECT start_time FROM weir_ratelimit_slot WHERE id = job.slot_id OFFSET 0) AS slot ON true
LEFT JOIN LATERAL (
    SELECT state, error, expires_at FROM weir_fetches_robotsfile WHERE origin = job.origin AND expires_at > now OFFSET 0
) AS file ON true
LEFT JOIN LATERAL (
    SELECT id, state
    FROM weir_fetches_fetch
    WHERE is_robots AND state IN ('queued', 'reserved', 'running') AND url = job.origin || %(path)s AND id <> job.id
    LIMIT 1
) AS asked ON true
LEFT JOIN LATERAL weir_fetches_ahead_in_turn(
    job.site_id, job.share, job.priority, job.not_before, job.id, now, site.weights, coalesce(site.turn_share, ''),
    site.turn_used, %(most)s::int
) AS in_turn ON job.is_queued
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE not_before <= now) AS due
    FROM (
        SELECT not_before
        FROM weir_fetches_fetch
        WHERE site_id = job.site_id AND state = 'queued' AND priority > job.priority AND in_turn.fetches IS NULL
        ORDER BY priority DESC, not_before, id
        LIMIT %(most)s
    ) AS first
) AS higher ON job.is_queued
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE not_before <= now) AS due
    FROM (
        SELECT not_before
        FROM weir_fetches_fetch
        WHERE site_id = job.site_id AND state = 'queued' AND priority = job.priority
            AND (not_before, id) < (job.not_before, job.id) AND in_turn.fetches IS NULL
        ORDER BY not_before, id
        LIMIT greatest(%(most)s - coalesce(higher.due, 0), 0)
    ) AS first
) AS equal ON job.is_queued
LEFT JOIN LATERAL (
    SELECT
        sum(least(at_once, cardinality(starts_s))) AS at_once,
        jsonb_agg(jsonb_build_object('at_once', at_once, 'starts_s', starts_s)) AS runs
    FROM weir_fetches_held_runs(job.site_id, now)
) AS run ON job.is_queued AND site.max_concurrency IS NOT NULL
