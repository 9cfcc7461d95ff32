-- Store how the fetches of robots.txt files ended. A robots.txt that was read counts for `lifetime` seconds, and is
-- asked for again `ahead` seconds before that time is over. A robots.txt that could not be read counts as unreachable,
-- or as forbidden, for `unreachable_for` seconds. If earlier rules still count, they stay, and the robots.txt is asked
-- for again after `unreachable_for` seconds. A lifetime lasts at least two slots of a slow site, and `ahead` one:
-- otherwise the site would be asked for nothing but its robots.txt.
--
-- asked    the arrays as rows, with the clock and the time between two slots of the site
-- lasting  for how long each answer counts
-- kept     the origins whose earlier rules stay, because the robots.txt could not be read now
WITH asked AS MATERIALIZED (
    SELECT
        answer.*,
        clock_timestamp() AS now,
        answer.state IN ('unreachable', 'forbidden') AS is_unreachable,
        greatest(site.effective_interval, answer.crawl_delay) AS slot_every
    FROM unnest(
        %(origin)s::text[], %(site_id)s::bigint[], %(state)s::text[], %(rules)s::text[], %(crawl_delay)s::interval[],
        %(error)s::text[]
    ) AS answer (origin, site_id, state, rules, crawl_delay, error)
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT effective_interval FROM weir_ratelimit_site WHERE id = answer.site_id OFFSET 0
    ) AS site
), lasting AS MATERIALIZED (
    SELECT
        asked.*,
        greatest(
            make_interval(secs => CASE WHEN is_unreachable THEN %(unreachable_for)s ELSE %(lifetime)s END::float8),
            2 * slot_every
        ) AS lifetime,
        CASE WHEN is_unreachable THEN interval '0'
            ELSE greatest(make_interval(secs => %(ahead)s::float8), slot_every) END AS ahead
    FROM asked
), kept AS (
    UPDATE weir_fetches_robotsfile AS file
    SET refresh_at = least(file.expires_at, lasting.now + lasting.lifetime)
    FROM lasting
    WHERE file.origin = lasting.origin AND is_unreachable AND file.state NOT IN ('unreachable', 'forbidden') AND file.expires_at > lasting.now
    RETURNING file.origin
)
INSERT INTO weir_fetches_robotsfile AS file (
    origin, site_id, state, rules, crawl_delay, error, fetched_at, refresh_at, expires_at
)
SELECT origin, site_id, state, rules, crawl_delay, error, now, now + lifetime - ahead, now + lifetime
FROM lasting
WHERE origin NOT IN (SELECT origin FROM kept)
ORDER BY origin
ON CONFLICT (origin) DO UPDATE SET
    site_id = EXCLUDED.site_id,
    state = EXCLUDED.state,
    rules = EXCLUDED.rules,
    -- While a robots.txt cannot be read, the Crawl-delay that it asked for stays.
    crawl_delay = CASE WHEN EXCLUDED.state IN ('unreachable', 'forbidden') THEN file.crawl_delay ELSE EXCLUDED.crawl_delay END,
    error = EXCLUDED.error,
    fetched_at = EXCLUDED.fetched_at,
    refresh_at = EXCLUDED.refresh_at,
    expires_at = EXCLUDED.expires_at
