-- Add up the minutes of the last `points` steps, each `step` long; the last step ends `trail` seconds ago. Returns one
-- row for each step, with NULLs if no minute of the step is known. The lateness is that of the worst minute. Reads
-- only, through the primary key.
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
        sum(fetches_done)::bigint AS fetches_done,
        sum(fetches_failed)::bigint AS fetches_failed,
        sum(fetches_cancelled)::bigint AS fetches_cancelled,
        sum(refused)::bigint AS refused,
        sum(slots_used)::bigint AS slots_used,
        sum(slots_given_back)::bigint AS slots_given_back,
        sum(slots_missed)::bigint AS slots_missed,
        sum(slots_void)::bigint AS slots_void,
        sum(slots_unreported)::bigint AS slots_unreported,
        sum(slots_allowed)::bigint AS slots_allowed,
        max(lateness_p50_ms) AS lateness_p50_ms,
        max(lateness_p99_ms) AS lateness_p99_ms,
        sum(emails_sent)::bigint AS emails_sent,
        sum(emails_failed)::bigint AS emails_failed,
        sum(emails_unknown)::bigint AS emails_unknown,
        sum(unread_flushed)::bigint AS unread_flushed
    FROM weir_history_minute
    WHERE minute >= (SELECT since FROM period) AND minute < (SELECT until FROM period)
    GROUP BY 1
)
SELECT
    step.since, (extract(epoch FROM %(step)s::interval) / 60)::int - coalesce(known, 0)::int AS missing,
    fetches_done, fetches_failed, fetches_cancelled, refused,
    slots_used, slots_given_back, slots_missed, slots_void, slots_unreported, slots_allowed,
    lateness_p50_ms, lateness_p99_ms, emails_sent, emails_failed, emails_unknown, unread_flushed
FROM period
CROSS JOIN LATERAL (
    SELECT period.since + n * %(step)s::interval AS since FROM generate_series(0, %(points)s::int - 1) AS n
) AS step
LEFT JOIN summed ON summed.since = step.since
ORDER BY step.since
