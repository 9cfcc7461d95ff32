-- Find those of these sites whose Crawl-delay is wrong, and the right one: the longest in the site's robots.txt files
-- that still count, or NULL if the site does not obey robots.txt. `obey` holds for sites that have no setting of their
-- own. Reads only.
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
