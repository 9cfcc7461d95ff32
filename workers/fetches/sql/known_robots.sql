-- Read the robots.txt files of these origins that still count. The caller names the `fetched_at` of each text that it
-- has (NULL: it has no text); a text is read only if its own `fetched_at` differs. At most `most` bytes of texts are
-- read, the short texts first, or one text. The other texts are left out. `site_lacks_delay` says that the site's
-- Crawl-delay is shorter than that of the robots.txt. Reads only.
--
-- counting  the files that still count, without texts; with the length of each text, 0 if the text need not be read
-- measured  the same files, with the number of bytes that are read up to and including each
WITH counting AS MATERIALIZED (
    SELECT
        file.*,
        CASE WHEN file.fetched_at IS DISTINCT FROM had.fetched_at THEN file.length ELSE 0 END AS to_read,
        coalesce(file.crawl_delay > coalesce(site.crawl_delay, interval '0'), false) AS site_lacks_delay
    FROM unnest(%(origins)s::text[], %(fetched_at)s::timestamptz[]) AS had (origin, fetched_at)
    CROSS JOIN LATERAL (  -- row look-up (docs/explanation/sql.md)
        SELECT
            weir_fetches_robotsfile.origin, state, error, fetched_at, refresh_at, expires_at, site_id, crawl_delay,
            octet_length(rules) AS length
        FROM weir_fetches_robotsfile
        WHERE weir_fetches_robotsfile.origin = had.origin
        OFFSET 0
    ) AS file
    CROSS JOIN LATERAL (  -- newest version
        SELECT crawl_delay FROM weir_ratelimit_site
        WHERE (id, name) >= (file.site_id, '') AND id <= file.site_id
        ORDER BY id DESC
        LIMIT 1
    ) AS site
    WHERE file.expires_at > clock_timestamp()
), measured AS MATERIALIZED (
    SELECT
        counting.*,
        sum(to_read) OVER (ORDER BY to_read, origin) AS read_so_far,
        row_number() OVER (PARTITION BY to_read > 0 ORDER BY to_read, origin) AS place
    FROM counting
)
SELECT
    origin, state, error, fetched_at,
    CASE WHEN to_read > 0 AND NOT left_out.is THEN (
        SELECT rules FROM weir_fetches_robotsfile WHERE weir_fetches_robotsfile.origin = measured.origin
    ) WHEN length = 0 THEN '' END AS rules,
    extract(epoch FROM expires_at - clock_timestamp())::float8 AS expires_in_s,
    refresh_at <= clock_timestamp() AS is_due,
    site_id,
    site_lacks_delay,
    left_out.is AS is_left_out
FROM measured
CROSS JOIN LATERAL (SELECT to_read > 0 AND place > 1 AND read_so_far > %(most)s AS is) AS left_out
