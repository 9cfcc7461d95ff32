-- Create the site at this rate, or change its settings. NULL leaves one as it is, `defaults` names those that go back to
-- their defaults. Without a rate (NULL) only a site that exists is changed; where there is none, no row is returned.
-- `next_start` keeps its distance from the last start at the *new* rate: a site that was slow is not bound by its old
-- interval, and one that was fast is bound at once. (A longer interval counts once for each start of the burst: what was
-- started in a burst has used it up at the new rate, too.)
-- What is reserved is recalled where it was to be used in another way; `is_reserved_ahead` says whether that was
-- farther ahead than need be.
-- ON CONFLICT locks the row before it computes: only there is it known which settings stay. (`given` has the interval
-- to be inserted, which the row may no longer have.) A site that does not obey robots.txt has no crawl delay.
INSERT INTO ratelimit_site AS site
    (name, "interval", burst, max_concurrency, grace, covers_subdomains, obeys_robots, has_backlog)
SELECT
    %(site)s, given."interval", coalesce(%(burst)s, 1), %(max_concurrency)s, %(grace)s,
    coalesce(%(covers_subdomains)s, false), %(obeys_robots)s, false
FROM (
    SELECT coalesce(%(interval)s, (SELECT "interval" FROM ratelimit_site WHERE name = %(site)s)) AS "interval"
) AS given
WHERE given."interval" IS NOT NULL
ON CONFLICT (name) DO UPDATE SET
    (
        "interval", burst, max_concurrency, grace, covers_subdomains, obeys_robots, crawl_delay,
        next_start,
        recalled_slot,
        recalled_at
    ) = (
        SELECT
            new."interval", new.burst, new.max_concurrency, new.grace, new.covers_subdomains, new.obeys_robots,
            asked.crawl_delay,
            site.next_start + greatest(longer, new.burst * longer),
            CASE WHEN changes THEN nextval(pg_get_serial_sequence('ratelimit_slot', 'id')) ELSE site.recalled_slot END,
            CASE WHEN changes THEN clock_timestamp() ELSE site.recalled_at END
        FROM (SELECT
            coalesce(%(interval)s, site."interval") AS "interval",
            coalesce(%(burst)s, site.burst) AS burst,
            CASE WHEN 'max_concurrency' <> ALL (%(defaults)s::text[])
                THEN coalesce(%(max_concurrency)s, site.max_concurrency) END AS max_concurrency,
            CASE WHEN 'grace' <> ALL (%(defaults)s::text[]) THEN coalesce(%(grace)s, site.grace) END AS grace,
            coalesce(%(covers_subdomains)s, site.covers_subdomains) AS covers_subdomains,
            CASE WHEN 'obeys_robots' <> ALL (%(defaults)s::text[])
                THEN coalesce(%(obeys_robots)s, site.obeys_robots) END AS obeys_robots
        ) AS new
        CROSS JOIN LATERAL (SELECT
            CASE WHEN new.obeys_robots IS DISTINCT FROM false THEN site.crawl_delay END AS crawl_delay
        ) AS asked
        CROSS JOIN LATERAL (SELECT
            greatest(new."interval", asked.crawl_delay) - site.effective_interval AS longer,
            new."interval" <> site."interval"
            OR new.burst <> site.burst
            OR new.max_concurrency IS DISTINCT FROM site.max_concurrency
            OR new.grace IS DISTINCT FROM site.grace
            OR new.obeys_robots IS DISTINCT FROM site.obeys_robots
            AS changes
        ) AS compared
    )
RETURNING
    id, next_start,
    recalled_at >= statement_timestamp() AND next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
