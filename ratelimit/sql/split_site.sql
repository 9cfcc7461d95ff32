-- Move hosts to the site `gainer`. They have belonged to the site `loser`, or may have belonged to one of the sites
-- `above` before it was split. `loser` or `gainer` is NULL if there is no such site. Executed in the transaction that
-- changes which hosts the sites cover, under the lock of lock_site_names.sql, with the rows locked (hold_site.sql).
-- Promises: no host is asked earlier because its site has changed. Slots that are reserved at either site are recalled.
-- The clock of `gainer` moves to an interval (and a whole burst) after the last start that the hosts may still be given
-- at `loser`. `gainer` goes on with the back-offs of `loser` and of `above`. Until the Crawl-delays of the robots.txt
-- files are settled, it also has the Crawl-delay of `loser`. The row of `loser` records until when it has promised
-- starts, for the clocks of sites that are created later, and that strays may be queued there.
-- Returns each site whose slots were recalled, its clock, and whether the clock is farther ahead than its rate needs.
--
-- left_site  the site `loser`
-- promised   the last start that the hosts may still be given, and the back-off that they had, at `loser` or at a site
--            of `above` that was split
-- lost       the site `loser`, changed
-- gained     the site `gainer`, changed
WITH left_site AS MATERIALIZED (
    SELECT
        id, crawl_delay, backed_off_until, coalesce(refused_until, backed_off_until) AS refused_until,
        backoff_level, backoff_error, backoff_reason, backed_off_slot,
        greatest(next_start - effective_interval, backed_off_until, clock_timestamp()) AS until
    FROM weir_ratelimit_site
    WHERE id = %(loser)s::bigint
), promised AS MATERIALIZED (
    SELECT
        max(until) AS until,
        max(backed_off_until) AS backed_off_until,
        max(refused_until) AS refused_until,
        max(backoff_level) AS backoff_level,
        (array_agg(backoff_error ORDER BY backed_off_until DESC NULLS LAST))[1] AS backoff_error,
        (array_agg(backoff_reason ORDER BY backed_off_until DESC NULLS LAST))[1] AS backoff_reason,
        max(backed_off_slot) AS backed_off_slot
    FROM (
        SELECT until, backed_off_until, refused_until, backoff_level, backoff_error, backoff_reason, backed_off_slot
        FROM left_site
        UNION ALL
        SELECT
            split_until, CASE WHEN backed_off_until IS NOT NULL THEN least(backed_off_until, split_until) END,
            coalesce(refused_until, backed_off_until), backoff_level, backoff_error, backoff_reason, backed_off_slot
        FROM weir_ratelimit_site
        WHERE name = ANY(%(above)s::text[]) AND split_until IS NOT NULL
    ) AS promise
), lost AS (
    UPDATE weir_ratelimit_site AS site
    SET split_until = greatest(site.split_until, left_site.until), has_strays = true,
        recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')), recalled_at = clock_timestamp()
    FROM left_site
    WHERE site.id = left_site.id
    RETURNING site.id, site.next_start, site.burst, site.effective_interval
), gained AS (
    UPDATE weir_ratelimit_site AS site
    SET next_start = greatest(
            site.next_start,
            promised.until + site.burst * greatest(site.effective_interval, inherited.crawl_delay)
        ),
        crawl_delay = inherited.crawl_delay,
        backed_off_until = greatest(site.backed_off_until, promised.backed_off_until),
        backoff_level = greatest(site.backoff_level, promised.backoff_level),
        (refused_until, backoff_error, backoff_reason) = (
            SELECT
                CASE WHEN refused < greatest(site.backed_off_until, promised.backed_off_until) THEN refused END,
                CASE WHEN is_later THEN promised.backoff_error ELSE site.backoff_error END,
                CASE WHEN is_later THEN promised.backoff_reason ELSE site.backoff_reason END
            FROM (SELECT
                greatest(coalesce(site.refused_until, site.backed_off_until), promised.refused_until) AS refused,
                promised.backed_off_until > coalesce(site.backed_off_until, '-infinity') AS is_later
            ) AS compared
        ),
        backed_off_slot = greatest(site.backed_off_slot, promised.backed_off_slot),
        recalled_slot = nextval(pg_get_serial_sequence('weir_ratelimit_slot', 'id')), recalled_at = clock_timestamp()
    FROM promised
    LEFT JOIN left_site ON true
    CROSS JOIN LATERAL (
        SELECT greatest(
            old.crawl_delay, CASE WHEN old.obeys_robots IS DISTINCT FROM false THEN left_site.crawl_delay END
        ) AS crawl_delay
        FROM weir_ratelimit_site AS old
        WHERE old.id = %(gainer)s::bigint
    ) AS inherited
    WHERE site.id = %(gainer)s::bigint AND promised.until IS NOT NULL
    RETURNING site.id, site.next_start, site.burst, site.effective_interval
)
SELECT id, next_start, next_start > clock_timestamp() + burst * effective_interval AS is_reserved_ahead
FROM (SELECT * FROM lost UNION ALL SELECT * FROM gained) AS changed
