-- Find which of these sites have a Crawl-delay that is not what it should be, and what it should be: the longest one in
-- the site's robots.txt files that still count; none at a site that does not obey. `obey` is for sites that leave it to
-- the setting. Reads only.
SELECT site.id AS site_id, asked.crawl_delay
FROM weir_ratelimit_site AS site
CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
    SELECT max(crawl_delay) AS crawl_delay
    FROM (
        SELECT crawl_delay
        FROM weir_fetches_robotsfile
        WHERE site_id = site.id AND expires_at > clock_timestamp()
        OFFSET 0
    ) AS file
    WHERE coalesce(site.obeys_robots, %(obey)s::bool)
) AS asked
WHERE site.id = ANY(%(sites)s::bigint[]) AND site.crawl_delay IS DISTINCT FROM asked.crawl_delay
ORDER BY site.id
