-- Store how the fetches of robots.txt files ended. A robots.txt that was read counts for `lifetime` seconds, and is
-- asked for again `ahead` seconds before that time is over. One that could not be read counts as unreachable, or as
-- forbidden, for `unreachable_for` seconds; if earlier rules still count, they stay, and are asked for again after that
-- time. At slow sites each of these times lasts two slots at least: otherwise the site would be asked for nothing but
-- its robots.txt.
--
-- asked    the arrays as rows, with the clock and the time that a slot takes at the site
-- lasting  for how long each counts
-- kept     earlier rules that stay, because the new ones could not be read
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
