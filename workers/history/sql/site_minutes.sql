-- Add up the minutes of one site in the last `points` steps, each `step` long; the last step ends `trail` seconds ago.
-- Returns one row for each step, with NULLs if no minute of the step is known. A minute without a row of the site is
-- known, and is zero, if each site that had something has its row. The lateness is that of the worst minute. Reads only,
-- through the primary key of minutes, and the index of the constraint weir_siteminute_unique.
--
-- period  the beginning and the end of all steps
-- summed  the sums of each step with a known minute
WITH period AS MATERIALIZED (
    SELECT until - %(points)s::int * %(step)s::interval AS since, until
    FROM date_trunc('minute', statement_timestamp() - make_interval(secs => %(trail)s::float8), 'UTC') AS until
), summed AS MATERIALIZED (
    SELECT
        date_bin(%(step)s::interval, minute, (SELECT since FROM period)) AS since,
        count(*) AS known,
        coalesce(sum(fetches_done), 0)::bigint AS fetches_done,
        coalesce(sum(fetches_failed), 0)::bigint AS fetches_failed,
        coalesce(sum(fetches_cancelled), 0)::bigint AS fetches_cancelled,
        coalesce(sum(refused), 0)::bigint AS refused,
        coalesce(sum(slots_used), 0)::bigint AS slots_used,
        coalesce(sum(slots_given_back), 0)::bigint AS slots_given_back,
        coalesce(sum(slots_missed), 0)::bigint AS slots_missed,
        coalesce(sum(slots_void), 0)::bigint AS slots_void,
        coalesce(sum(slots_unreported), 0)::bigint AS slots_unreported,
        coalesce(sum(slots_allowed), 0)::bigint AS slots_allowed,
        max(lateness_p50_ms) AS lateness_p50_ms,
        max(lateness_p99_ms) AS lateness_p99_ms
    FROM (
        SELECT *
        FROM weir_history_siteminute
        WHERE site_id = %(site)s::bigint AND minute >= (SELECT since FROM period) AND minute < (SELECT until FROM period)
    ) AS of_site
    FULL JOIN (
        SELECT minute
        FROM weir_history_minute
        WHERE has_all_sites AND minute >= (SELECT since FROM period) AND minute < (SELECT until FROM period)
    ) AS of_all USING (minute)
    GROUP BY 1
)
SELECT
    step.since, (extract(epoch FROM %(step)s::interval) / 60)::int - coalesce(known, 0)::int AS missing,
    fetches_done, fetches_failed, fetches_cancelled, refused,
    slots_used, slots_given_back, slots_missed, slots_void, slots_unreported, slots_allowed,
    lateness_p50_ms, lateness_p99_ms
FROM period
CROSS JOIN LATERAL (
    SELECT period.since + n * %(step)s::interval AS since FROM generate_series(0, %(points)s::int - 1) AS n
) AS step
LEFT JOIN summed ON summed.since = step.since
ORDER BY step.since
