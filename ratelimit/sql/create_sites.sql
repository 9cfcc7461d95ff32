-- Create sites of these names, at `interval`, except sites that exist, and sites of hosts that another site covers:
-- `hosts` and `ancestors` name, in pairs, the sites above each host. `written_rate` is the interval's rate, as it was
-- written. Executed under the lock of lock_site_names.sql. Rows are inserted in the order of their names (lock order,
-- docs/explanation/sql.md).
-- If a site above covered the host before, the new site's clock begins an interval after the last start that the host
-- was promised there. Likewise, it begins an interval after the last start at a deleted site of the host. It also
-- begins after the rest that all sites have when PostgreSQL has forgotten something (rest_sites.sql), because the host
-- may have had a site that is forgotten. The new site goes on with the back-off of the site above. Until the
-- Crawl-delays of its own robots.txt files are settled, it also has the Crawl-delay of the site above (as in
-- split_site.sql).
--
-- above  the sites above each host that cover it, or covered it before
-- gone   the last start that each host may have been given at sites that are deleted
WITH above AS MATERIALIZED (
    SELECT pair.host, site.*
    FROM unnest(%(hosts)s::text[], %(ancestors)s::text[]) AS pair (host, ancestor)
    CROSS JOIN LATERAL (  -- row look-up
        SELECT
            covers_subdomains, split_until, CASE WHEN has_strays THEN crawl_delay END AS crawl_delay,
            CASE WHEN backed_off_until IS NOT NULL THEN least(backed_off_until, split_until) END AS backed_off_until,
            coalesce(refused_until, backed_off_until) AS refused_until,
            backoff_level, backoff_error, backoff_reason, backed_off_slot
        FROM weir_ratelimit_site
        WHERE name = pair.ancestor
        OFFSET 0
    ) AS site
    WHERE covers_subdomains OR split_until IS NOT NULL
), gone AS MATERIALIZED (
    SELECT pair.host, max(deleted.last_start) AS last_start
    FROM (
        SELECT * FROM unnest(%(hosts)s::text[], %(ancestors)s::text[]) AS t (host, name)
        UNION ALL
        SELECT name, name FROM unnest(%(names)s::text[]) AS t (name)
    ) AS pair
    CROSS JOIN LATERAL (  -- row look-up
        SELECT last_start FROM weir_ratelimit_deletedsite WHERE name = pair.name OFFSET 0
    ) AS deleted
    GROUP BY pair.host
)
INSERT INTO weir_ratelimit_site (
    name, "interval", written_rate, burst, covers_subdomains, has_backlog, crawl_delay,
    backed_off_until, refused_until, backoff_level, backoff_error, backoff_reason, backed_off_slot,
    next_start
)
SELECT
    wanted.name, %(interval)s, %(written_rate)s, 1, false, false, max(above.crawl_delay),
    max(above.backed_off_until),
    CASE WHEN max(above.refused_until) < max(above.backed_off_until) THEN max(above.refused_until) END,
    coalesce(max(above.backoff_level), 0),
    coalesce((array_agg(above.backoff_error ORDER BY above.backed_off_until DESC NULLS LAST))[1], ''),
    coalesce((array_agg(above.backoff_reason ORDER BY above.backed_off_until DESC NULLS LAST))[1], ''),
    coalesce(max(above.backed_off_slot), 0),
    coalesce(
        greatest(
            greatest(max(above.split_until), max(gone.last_start)) + greatest(%(interval)s, max(above.crawl_delay)),
            (SELECT went_back_at FROM weir_timeline_knowntimeline) + %(rest)s
                + greatest(%(interval)s, max(above.crawl_delay))
        ),
        %(long_ago)s
    )
FROM unnest(%(names)s::text[]) AS wanted (name)
LEFT JOIN above ON above.host = wanted.name
LEFT JOIN gone ON gone.host = wanted.name
GROUP BY wanted.name
HAVING NOT coalesce(bool_or(above.covers_subdomains), false)
ORDER BY wanted.name
ON CONFLICT (name) DO NOTHING
