-- Create the site at this rate, or change its rate and burst, and move its clock. A rate or burst of NULL does not
-- change. Without a rate, only an existing site is changed; if there is none, no row is returned. The same transaction
-- stores the other settings; it has locked the row before (hold_site.sql).
-- `next_start` moves so that the last start is followed by the new interval: a faster rate is not bound by the old
-- interval, and a slower rate holds from the next start on. A longer interval counts once for each start of the burst:
-- a burst that is used up at the old rate is used up at the new rate.
-- If the site's hosts belonged to a site that was deleted, the clock is an interval (and a whole burst) after the last
-- start there, or later. `above` names the sites above this one.
-- Purge does not delete the site, because a person has set it.
-- The reserved slots are recalled if a change affects them; `changes` says that another setting than the rate does.
-- `is_reserved_ahead` says whether slots were recalled and the site was reserved farther ahead than the rate needs.
-- ON CONFLICT locks the row before the new values are computed, which depend on the old ones. (`given` has the interval
-- for the insertion; the locked row may have another one.) A site that does not obey robots.txt has no crawl delay.
--
-- gone  the last start at deleted sites whose hosts belong to this site now
WITH gone AS MATERIALIZED (
    SELECT max(last_start) AS last_start
    FROM weir_ratelimit_deletedsite
    WHERE name = %(site)s OR name = ANY(%(above)s::text[]) OR right(name, length(%(site)s) + 1) = '.' || %(site)s
)
INSERT INTO weir_ratelimit_site AS site
    (name, "interval", written_rate, burst, covers_subdomains, has_backlog, is_kept, next_start)
SELECT
    %(site)s, given."interval", coalesce(%(written_rate)s, ''), coalesce(%(burst)s, 1), false, false, true,
    greatest(%(long_ago)s, gone.last_start + coalesce(%(burst)s, 1) * given."interval")
FROM (
    SELECT coalesce(%(interval)s, (SELECT "interval" FROM weir_ratelimit_site WHERE name = %(site)s)) AS "interval"
) AS given
CROSS JOIN gone
WHERE given."interval" IS NOT NULL
ON CONFLICT (name) DO UPDATE SET
    ("interval", written_rate, burst, crawl_delay, is_kept, next_start, recalled_slot, recalled_at) = (
        SELECT
            new."interval", new.written_rate, new.burst, new.crawl_delay, true,
            greatest(
                site.next_start + greatest(longer, new.burst * longer),
                (SELECT last_start FROM gone) + new.burst * greatest(new."interval", new.crawl_delay)
            ),
            CASE WHEN is_recalled THEN nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')) ELSE site.recalled_slot END,
            CASE WHEN is_recalled THEN clock_timestamp() ELSE site.recalled_at END
        FROM (SELECT
            coalesce(%(interval)s, site."interval") AS "interval",
            coalesce(%(written_rate)s, site.written_rate) AS written_rate,
            coalesce(%(burst)s, site.burst) AS burst,
            CASE WHEN NOT %(ignores_robots)s THEN site.crawl_delay END AS crawl_delay
        ) AS new
        CROSS JOIN LATERAL (SELECT
            greatest(new."interval", new.crawl_delay) - site.effective_interval AS longer,
            %(changes)s OR new."interval" <> site."interval" AS is_recalled
        ) AS compared
    )
RETURNING
    id, next_start,
    recalled_at >= statement_timestamp() AND next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
