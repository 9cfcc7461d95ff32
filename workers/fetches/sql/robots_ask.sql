-- Queue the robots.txt of these origins, each in its lane and before everything else there. Left out are those that
-- are known and need no refreshing, those that are being asked for, and those in lanes that do not obey: `obey` is what
-- counts for a lane that says nothing itself. Returns the lanes in which something was queued.
INSERT INTO fetches_fetch (
    url, hop_url, site_id, state, is_robots, priority, max_attempts, not_before,
    error, on_done, redirects, attempts, headers, etag, last_modified, revalidate
)
SELECT
    asked.url, asked.url, asked.site_id, 'queued', true, %(priority)s, %(max_attempts)s, clock_timestamp(),
    '', '', 0, 0, '[]', '', '', false
FROM unnest(%(origins)s::text[], %(urls)s::text[], %(sites)s::bigint[]) AS asked (origin, url, site_id)
-- By site and by origin, one by one, whatever the statistics say.
CROSS JOIN LATERAL (SELECT obeys_robots FROM ratelimit_site WHERE id = asked.site_id OFFSET 0) AS site
LEFT JOIN LATERAL (
    SELECT refresh_at FROM fetches_robotsfile WHERE fetches_robotsfile.origin = asked.origin OFFSET 0
) AS known ON true
WHERE coalesce(site.obeys_robots, %(obey)s::bool) AND coalesce(known.refresh_at <= clock_timestamp(), true)
ORDER BY asked.origin  -- two who ask for the same origins wait for each other in one order only
ON CONFLICT (url) WHERE is_robots AND state IN ('queued', 'reserved', 'running') DO NOTHING
RETURNING site_id
