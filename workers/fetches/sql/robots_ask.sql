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
JOIN ratelimit_site AS site ON site.id = asked.site_id AND coalesce(site.obeys_robots, %(obey)s::bool)
WHERE NOT EXISTS (
    SELECT FROM fetches_robotsfile AS file WHERE file.origin = asked.origin AND file.refresh_at > clock_timestamp()
)
ORDER BY asked.origin  -- two who ask for the same origins wait for each other in one order only
ON CONFLICT (url) WHERE is_robots AND state IN ('queued', 'reserved', 'running') DO NOTHING
RETURNING site_id
