-- Read what is known of the robots.txt of these origins, as far as it still counts; the text only where it was not
-- fetched at the time that the caller names (NULL: the caller has no text). `site_lacks_delay` says that the site's
-- Crawl-delay is shorter than the one in the text. Reads only.
SELECT
    file.origin, file.state, file.error, file.fetched_at,
    CASE WHEN file.fetched_at IS DISTINCT FROM had.fetched_at THEN file.rules END AS rules,
    extract(epoch FROM file.expires_at - clock_timestamp())::float8 AS expires_in_s,
    file.refresh_at <= clock_timestamp() AS is_due,
    file.site_id,
    coalesce(file.crawl_delay > coalesce(site.crawl_delay, interval '0'), false) AS site_lacks_delay
FROM unnest(%(origins)s::text[], %(fetched_at)s::timestamptz[]) AS had (origin, fetched_at)
CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT * FROM fetches_robotsfile WHERE fetches_robotsfile.origin = had.origin OFFSET 0
) AS file
CROSS JOIN LATERAL (SELECT crawl_delay FROM ratelimit_site WHERE id = file.site_id OFFSET 0) AS site
WHERE file.expires_at > clock_timestamp()
