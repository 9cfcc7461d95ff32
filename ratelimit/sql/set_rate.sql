-- Create the site at this rate, or change its settings. A NULL leaves a setting as it is; `defaults` names the settings
-- that go back to their defaults. Without a rate (NULL), only a site that exists is changed; where there is none, no
-- row is returned.
-- `next_start` keeps its distance from the last start by the new rate: a faster rate is not bound by the old interval,
-- and a slower one is kept from the next start on. A longer interval counts once for each start of the burst: a burst
-- that is used up at the old rate is used up at the new one.
-- Where its hosts belonged to a site that is deleted, the clock is an interval (and a whole burst) after their last start
-- there; `above` names the sites above this one.
-- A person has set it: purge leaves it.
-- The reserved slots are recalled where a change affects them. `is_reserved_ahead` tells whether the site was reserved
-- farther ahead than the rate needs.
-- ON CONFLICT locks the row before the new values are computed, which depend on the old ones. (`given` has the interval
-- for the insertion; the locked row may have another.) A site that does not obey robots.txt has no crawl delay.
--
-- gone  the last start at deleted sites whose hosts belong to this one now
WITH gone AS MATERIALIZED (
    SELECT max(last_start) AS last_start
    FROM weir_ratelimit_deletedsite
    WHERE name = %(site)s OR name = ANY(%(above)s::text[]) OR right(name, length(%(site)s) + 1) = '.' || %(site)s
)
INSERT INTO weir_ratelimit_site AS site
    (
        name, "interval", written_rate, burst, max_concurrency, grace, covers_subdomains, obeys_robots, refusing, has_backlog,
        is_kept, next_start
    )
SELECT
    %(site)s, given."interval", coalesce(%(written_rate)s, ''), coalesce(%(burst)s, 1), %(max_concurrency)s, %(grace)s,
    coalesce(%(covers_subdomains)s, false), %(obeys_robots)s, %(refusing)s::smallint[], false, true,
    greatest(%(long_ago)s, gone.last_start + coalesce(%(burst)s, 1) * given."interval")
FROM (
    SELECT coalesce(%(interval)s, (SELECT "interval" FROM weir_ratelimit_site WHERE name = %(site)s)) AS "interval"
) AS given
CROSS JOIN gone
WHERE given."interval" IS NOT NULL
ON CONFLICT (name) DO UPDATE SET
    (
        "interval", written_rate, burst, max_concurrency, grace, covers_subdomains, obeys_robots, refusing, crawl_delay,
        is_kept,
        next_start,
        recalled_slot,
        recalled_at
    ) = (
        SELECT
            new."interval", new.written_rate, new.burst, new.max_concurrency, new.grace, new.covers_subdomains, new.obeys_robots,
            new.refusing, asked.crawl_delay,
            true,
            greatest(
                site.next_start + greatest(longer, new.burst * longer),
                (SELECT last_start FROM gone) + new.burst * greatest(new."interval", asked.crawl_delay)
            ),
            CASE WHEN changes THEN nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')) ELSE site.recalled_slot END,
            CASE WHEN changes THEN clock_timestamp() ELSE site.recalled_at END
        FROM (SELECT
            coalesce(%(interval)s, site."interval") AS "interval",
            coalesce(%(written_rate)s, site.written_rate) AS written_rate,
            coalesce(%(burst)s, site.burst) AS burst,
            CASE WHEN 'max_concurrency' <> ALL (%(defaults)s::text[])
                THEN coalesce(%(max_concurrency)s, site.max_concurrency) END AS max_concurrency,
            CASE WHEN 'grace' <> ALL (%(defaults)s::text[]) THEN coalesce(%(grace)s, site.grace) END AS grace,
            coalesce(%(covers_subdomains)s, site.covers_subdomains) AS covers_subdomains,
            CASE WHEN 'obeys_robots' <> ALL (%(defaults)s::text[])
                THEN coalesce(%(obeys_robots)s, site.obeys_robots) END AS obeys_robots,
            CASE WHEN 'refusing' <> ALL (%(defaults)s::text[])
                THEN coalesce(%(refusing)s::smallint[], site.refusing) END AS refusing
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
            OR new.refusing IS DISTINCT FROM site.refusing
            AS changes
        ) AS compared
    )
RETURNING
    id, next_start, covers_subdomains,
    recalled_at >= statement_timestamp() AND next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
