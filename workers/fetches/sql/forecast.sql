-- Read what dispatch finds at `site`, how many fetches would start before a request of priority 0 that is queued now,
-- and how many fetches belong to the site's backlog. Of the fetches that are not due yet, those of higher priority that
-- become due within `starts_within` seconds start before the request, and all that become due within `clears_within`
-- seconds belong to the backlog. Reads only.
-- The request may be for any of `origins`. If none of these has a robots.txt that is known, queued or in flight, a
-- robots.txt is asked for first. If the robots.txt of one is known to be unreachable, nothing is fetched before it is
-- asked for again: fetches that become due until then count as due.
-- If `site` is NULL, the row says what would hold for a new site `name`, at `interval`, the interval of `written_rate`.
--
-- run     at a site with `max_concurrency`, the runs that still have held fetches, each with its starts
-- clock   the database's time
-- site    the site, or the one that would be created
-- robots  among the robots.txt files of the origins, the one that stays unreachable for the longest time
-- dated   when queued fetches can start
-- queue   the site's queued fetches, counted in the index weir_fetch_queue alone, because a queue may be long
-- shared  what of this queue has a share, the empty one included, and what of it would start before the request by age,
--         but is of other shares than the request, which has none: counted in the index weir_fetch_shares alone
-- asked   the site's queued robots.txt files that are due: few, because the index weir_fetch_robots_once has only
--         unfinished fetches of robots.txt files
SELECT
    site.id IS NULL AS is_new, site.name, written_rate, effective_interval, burst, max_concurrency, paused_until,
    has_backlog, now,
    coalesce(held_state, 'running') AS state,
    is_silent AND held_state IS NOT NULL AS is_silent,
    backoff_error, crawl_delay,
    extract(epoch FROM effective_interval)::float8 AS interval_s,
    extract(epoch FROM spacing)::float8 AS spacing_s,
    extract(epoch FROM effective_grace)::float8 AS grace_s,
    extract(epoch FROM next_start - now)::float8 AS reserved_for_s,
    coalesce(extract(epoch FROM greatest(paused_until, backed_off_until) - now), '-infinity')::float8 AS held_for_s,
    queued, backlog,
    ahead - others + CASE WHEN shared.fetches = 0 THEN 0 ELSE (
        SELECT fetches FROM weir_fetches_before_share(
            site.id, '', greatest(ahead - others - robots, 0), due, weights, coalesce(turn_share, ''), turn_used, 10000
        )
    ) END AS ahead,
    asked.robots,
    coalesce(obeys_robots, %(obey)s::bool)
        AND NOT EXISTS (SELECT FROM weir_fetches_robotsfile WHERE origin = ANY(%(origins)s) AND refresh_at > now)
        AND NOT EXISTS (
            SELECT FROM weir_fetches_fetch
            WHERE is_robots AND state IN ('queued', 'reserved', 'running') AND url = ANY(%(robots_urls)s)
        ) AS asks_robots,
    coalesce(extract(epoch FROM unreachable_until - now), 0)::float8 AS robots_held_for_s,
    coalesce(origin || ': ' || error, '') AS robots_error,
    (
        SELECT coalesce(jsonb_agg(jsonb_build_object('at_once', at_once, 'starts_s', starts_s)), '[]')
        FROM weir_fetches_held_runs(site.id, now) AS run
        WHERE max_concurrency IS NOT NULL
    ) AS held_runs
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN (
    SELECT
        id, name, written_rate, effective_interval, spacing, effective_grace, burst, max_concurrency, obeys_robots,
        next_start, paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog, due_at,
        crawl_delay, weights, turn_share, turn_used
    FROM weir_ratelimit_site
    WHERE id = %(site)s
    UNION ALL
    SELECT
        NULL, %(name)s, %(written_rate)s, %(interval)s::interval, weir_ratelimit_spacing(%(interval)s::interval),
        weir_ratelimit_grace(%(interval)s::interval), 1, NULL, NULL, %(long_ago)s,
        NULL, NULL, NULL, '', false, false, NULL, NULL, NULL, NULL, 0
    WHERE %(site)s::bigint IS NULL
) AS site
CROSS JOIN LATERAL (
    SELECT weir_ratelimit_held_state(
        paused_until, backed_off_until, refused_until, backoff_error, is_silent, has_backlog OR due_at IS NOT NULL, now
    ) AS held_state
) AS held
LEFT JOIN LATERAL (
    SELECT origin, error, expires_at AS unreachable_until
    FROM weir_fetches_robotsfile
    WHERE origin = ANY(%(origins)s) AND state = 'unreachable' AND expires_at > now AND coalesce(obeys_robots, %(obey)s::bool)
    ORDER BY expires_at DESC
    LIMIT 1
) AS robots ON true
CROSS JOIN LATERAL (SELECT coalesce(unreachable_until, now) AS due) AS dated
CROSS JOIN LATERAL (
    SELECT
        count(*) AS queued,
        count(*) FILTER (WHERE not_before <= greatest(due, now + make_interval(secs => %(clears_within)s::float8))) AS backlog,
        count(*) FILTER (
            WHERE priority > 0 AND not_before <= greatest(due, now + make_interval(secs => %(starts_within)s::float8))
                OR priority = 0 AND not_before <= due
        ) AS ahead
    FROM weir_fetches_fetch
    WHERE site_id = site.id AND state = 'queued'
) AS queue
CROSS JOIN LATERAL (
    SELECT count(*) AS robots
    FROM (
        SELECT site_id, state, not_before
        FROM weir_fetches_fetch
        WHERE is_robots AND state IN ('queued', 'reserved', 'running')
        OFFSET 0
    ) AS asked
    WHERE asked.site_id = site.id AND asked.state = 'queued' AND asked.not_before <= now
) AS asked
CROSS JOIN LATERAL (
    SELECT
        count(*) AS fetches,
        count(*) FILTER (
            WHERE share <> '' AND (priority = 0 AND not_before <= due
                OR priority > 0 AND not_before <= greatest(due, now + make_interval(secs => %(starts_within)s::float8)))
        ) AS others
    FROM weir_fetches_fetch
    WHERE site_id = site.id AND share IS NOT NULL AND lease_until IS NULL AND finished_at IS NULL
) AS shared
