-- Queue the robots.txt of these origins, each at its site and before everything else there. An origin is left out if
-- its robots.txt is known and not due to be refreshed, or is queued or in flight already, or if its site does not obey
-- robots.txt; `obey` holds for sites that have no setting of their own. Returns the sites for which a robots.txt was
-- queued.
-- With `ahead` (seconds), at most as many robots.txt files are queued for a site as fit into that time at its rate, and
-- never more than `most`. None is queued if a fetch of the site has been due for longer than `ahead`. Otherwise, a site
-- of many origins would fetch nothing but robots.txt files. The others are asked for when a fetcher needs them.
--
-- wanted  the origins whose robots.txt is needed, numbered within each site
-- roomy   with `ahead`: how many more robots.txt files may be queued for each site
WITH wanted AS MATERIALIZED (
    SELECT asked.*, site.effective_interval, row_number() OVER (PARTITION BY site_id ORDER BY origin) AS place
    FROM unnest(%(origins)s::text[], %(urls)s::text[], %(sites)s::bigint[], %(correlation_ids)s::text[])
        AS asked (origin, url, site_id, correlation_id)
    CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
        SELECT obeys_robots, effective_interval FROM weir_ratelimit_site
        WHERE (id, name) >= (asked.site_id, '') AND id <= asked.site_id
        ORDER BY id DESC
        LIMIT 1
    ) AS site
    LEFT JOIN LATERAL (  -- row look-up
        SELECT refresh_at FROM weir_fetches_robotsfile WHERE weir_fetches_robotsfile.origin = asked.origin OFFSET 0
    ) AS known ON true
    WHERE coalesce(site.obeys_robots, %(obey)s::bool) AND coalesce(known.refresh_at <= clock_timestamp(), true)
), roomy AS MATERIALIZED (
    SELECT site_id, CASE WHEN next.waits THEN 0 ELSE room - queued.robots END AS room
    FROM (
        SELECT DISTINCT
            site_id,
            least(greatest(1, floor(%(ahead)s::float8 / extract(epoch FROM effective_interval))), %(most)s)::int AS room
        FROM wanted
        WHERE %(ahead)s::float8 IS NOT NULL
    ) AS site
    CROSS JOIN LATERAL (
        SELECT count(*) AS robots
        FROM (
            SELECT FROM weir_fetches_fetch
            WHERE site_id = site.site_id AND state = 'queued' AND priority = %(priority)s
            LIMIT site.room
        ) AS first
    ) AS queued
    LEFT JOIN LATERAL (
        SELECT not_before < clock_timestamp() - make_interval(secs => %(ahead)s::float8) AS waits
        FROM weir_fetches_fetch
        WHERE site_id = site.site_id AND state = 'queued' AND priority < %(priority)s AND not_before <= clock_timestamp()
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) AS next ON true
)
INSERT INTO weir_fetches_fetch (
    url, hop_url, site_id, state, is_robots, priority, max_attempts, not_before, correlation_id
)
SELECT
    url, url, site_id, 'queued', true, %(priority)s, %(max_attempts)s, clock_timestamp(), correlation_id
FROM wanted
LEFT JOIN roomy USING (site_id)
WHERE coalesce(place <= roomy.room, true)
ORDER BY origin  -- lock order (docs/explanation/sql.md)
ON CONFLICT (url) WHERE is_robots AND state IN ('queued', 'reserved', 'running') DO NOTHING
RETURNING site_id
