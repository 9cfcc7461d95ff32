-- Count how far the fetches with these ids are: the totals, and the `most` sites that have most unfinished ones. Each
-- site has its state, and an error that explains why its fetches wait: the site's error, that of one of the fetches, or
-- that of the robots.txt for which they wait; `last_queued` is the queued fetch that was asked for last. Reads only.
-- There is one row for each site, with the totals in each; or one row without a site's name if nothing is unfinished.
-- `first` and `last` are the lowest and the highest of `ids`: the range of the primary key that is read.
WITH counted AS MATERIALIZED (
    SELECT
        site_id,
        count(*) FILTER (WHERE state = 'done') AS done,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE state IN ('queued', 'reserved', 'running')) AS unfinished,
        max(id) FILTER (WHERE state = 'queued') AS last_queued,
        max(error) FILTER (WHERE finished_at IS NULL AND due_since IS NULL) AS error  -- not if it keeps its place
    FROM weir_fetches_fetch
    WHERE id BETWEEN %(first)s AND %(last)s AND id <@ %(ids)s::int8multirange
    GROUP BY site_id
), total AS (
    SELECT
        coalesce(sum(done), 0)::bigint AS done,
        coalesce(sum(failed), 0)::bigint AS failed,
        coalesce(sum(cancelled), 0)::bigint AS cancelled,
        coalesce(sum(unfinished), 0)::bigint AS unfinished,
        count(*) FILTER (WHERE unfinished > 0) AS sites
    FROM counted
), busiest AS (
    SELECT
        site.name,
        site."interval",
        site.written_rate,
        coalesce(held_state, 'busy') AS state,
        coalesce(
            CASE WHEN held_state = 'unreachable' THEN site.backoff_error END,
            nullif(counted.error, ''),
            robots.error,
            ''
        ) AS error,
        counted.last_queued,
        counted.unfinished AS site_unfinished,
        counted.done + counted.failed + counted.cancelled AS site_ended
    FROM counted
    JOIN weir_ratelimit_site AS site ON site.id = counted.site_id
    CROSS JOIN LATERAL (
        SELECT weir_ratelimit_held_state(
            site.paused_until, site.backed_off_until, site.refused_until, site.backoff_error, site.is_silent, true,
            statement_timestamp()
        ) AS held_state
    ) AS held
    LEFT JOIN LATERAL (
        -- The first of the queue: a robots.txt goes before all others (index order, docs/explanation/sql.md).
        SELECT queued.error, queued.is_robots
        FROM weir_fetches_fetch AS queued
        WHERE queued.site_id = site.id AND queued.state = 'queued'
        ORDER BY queued.site_id, queued.priority DESC, queued.not_before, queued.id
        LIMIT 1
    ) AS robots ON robots.is_robots
    WHERE counted.unfinished > 0
    ORDER BY counted.unfinished DESC, site.name
    LIMIT %(most)s
)
SELECT
    total.*,
    name,
    coalesce("interval", interval '0') AS "interval",
    coalesce(written_rate, '') AS written_rate,
    coalesce(state, '') AS state,
    coalesce(error, '') AS error,
    last_queued,
    coalesce(site_unfinished, 0) AS site_unfinished,
    coalesce(site_ended, 0) AS site_ended
FROM total LEFT JOIN busiest ON true
ORDER BY site_unfinished DESC, name
