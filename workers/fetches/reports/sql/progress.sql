-- Count how far the fetches with these ids are: totals, and the sites that have most unfinished ones. Reads only.
-- One row a site, with the totals in each; one row without a site's name where nothing is unfinished.
-- `first` and `last` are the ends of `ids`: they name the range of the primary key that is read.
WITH counted AS MATERIALIZED (
    SELECT
        site_id,
        count(*) FILTER (WHERE state = 'done') AS done,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE state IN ('queued', 'reserved', 'running')) AS unfinished
    FROM fetches_fetch
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
        coalesce(greatest(site.paused_until, site.backed_off_until) > clock_timestamp(), false) AS held_up,
        counted.unfinished AS site_unfinished,
        counted.done + counted.failed + counted.cancelled AS site_ended
    FROM counted
    JOIN ratelimit_site AS site ON site.id = counted.site_id
    WHERE counted.unfinished > 0
    ORDER BY counted.unfinished DESC, site.name
    LIMIT %(most)s
)
SELECT
    total.*,
    name,
    coalesce("interval", interval '0') AS "interval",
    coalesce(written_rate, '') AS written_rate,
    coalesce(held_up, false) AS held_up,
    coalesce(site_unfinished, 0) AS site_unfinished,
    coalesce(site_ended, 0) AS site_ended
FROM total LEFT JOIN busiest ON true
ORDER BY site_unfinished DESC, name
