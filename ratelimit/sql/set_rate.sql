-- Create the lane at this rate, or change its rate. NULL leaves a setting as it is.
-- The start that the lane is booked until keeps its distance from the last one at the *new* rate, so that a lane
-- which was slow is not bound by its old interval, and one that was fast is bound at once. (A longer interval counts
-- once for each start of the burst: what was started in a burst has used it up at the new rate, too.) What is reserved
-- already is recalled where it was to be used in another way; `is_booked` says whether that was farther ahead than need
-- be. ON CONFLICT locks the row before it reckons. A site that does not obey robots.txt has no crawl delay.
INSERT INTO ratelimit_site AS site
    (name, "interval", burst, max_concurrency, grace, covers_subdomains, obeys_robots, has_backlog)
VALUES (
    %(site)s, %(interval)s, coalesce(%(burst)s, 1), %(max_concurrency)s, %(grace)s,
    coalesce(%(covers_subdomains)s, false), %(obeys_robots)s, false
)
ON CONFLICT (name) DO UPDATE SET
    "interval" = EXCLUDED."interval",
    burst = coalesce(%(burst)s, site.burst),
    max_concurrency = coalesce(%(max_concurrency)s, site.max_concurrency),
    grace = coalesce(%(grace)s, site.grace),
    covers_subdomains = coalesce(%(covers_subdomains)s, site.covers_subdomains),
    obeys_robots = coalesce(%(obeys_robots)s, site.obeys_robots),
    crawl_delay = CASE WHEN %(obeys_robots)s IS DISTINCT FROM false THEN site.crawl_delay END,
    next_start = site.next_start + (
        SELECT greatest(longer, coalesce(%(burst)s, site.burst) * longer)
        FROM (SELECT greatest(
            EXCLUDED."interval", CASE WHEN %(obeys_robots)s IS DISTINCT FROM false THEN site.crawl_delay END
        ) - site.effective_interval AS longer) AS change
    ),
    (recalled_slot, recalled_at) = (
        SELECT
            CASE WHEN changes THEN nextval(pg_get_serial_sequence('ratelimit_slot', 'id')) ELSE site.recalled_slot END,
            CASE WHEN changes THEN clock_timestamp() ELSE site.recalled_at END
        FROM (SELECT
            EXCLUDED."interval" <> site."interval"
            OR coalesce(%(burst)s, site.burst) <> site.burst
            OR coalesce(%(max_concurrency)s, site.max_concurrency) IS DISTINCT FROM site.max_concurrency
            OR coalesce(%(grace)s, site.grace) IS DISTINCT FROM site.grace
            OR coalesce(%(obeys_robots)s, site.obeys_robots) IS DISTINCT FROM site.obeys_robots
            AS changes
        ) AS compared
    )
RETURNING
    id, next_start,
    recalled_at >= statement_timestamp() AND next_start > clock_timestamp() + burst * effective_interval AS is_booked
