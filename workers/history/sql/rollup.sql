-- Roll up the minute that begins at `minute`: add what happened in the minute to the totals, write the minute's rows,
-- and move the watermark to the minute's end. Run in the transaction that holds the watermark's lock (next_minute.sql),
-- after planner.by_indexes.
--
-- Promises: with the watermark's row locked, no minute is added twice. A process that is killed leaves nothing half
-- done, because this is one statement. A minute that is not whole (`is_whole`) gets no rows; the rows that are left of
-- it still count in the totals.
--
-- Slots are found through the block range index of their starts, fetches through the block range index of their ends.
-- No outcome can arrive any more: a slot without an outcome is unreported.
--
-- slot     the slots that began in the minute, each with its fate
-- at_site  the numbers of these slots, by site
-- ended    the fetches that ended in the minute, each with the bucket of its lateness
-- fetches  the numbers of these fetches, for all sites together (without a site_id), and by site
-- ended_email, email    the e-mails that ended in the minute; their numbers by state
-- flushed  the epochs of unread numbers that were flushed before the end of the minute, and count in no minute yet
-- added    what is added to the totals
-- counted  the columns of the rows: one row for each site, and two for all sites together (of fetches and of slots)
WITH slot AS MATERIALIZED (
    SELECT
        slot.site_id, slot."interval",
        weir_ratelimit_slot_fate(slot, site.recalled_slot, site.recalled_at, '-infinity', %(minute)s::timestamptz) AS fate
    FROM weir_ratelimit_slot AS slot
    LEFT JOIN LATERAL (  -- reads the newest version of the row (docs/explanation/sql.md); the site may be deleted
        SELECT recalled_slot, recalled_at FROM weir_ratelimit_site
        WHERE (id, name) >= (slot.site_id, '') AND id <= slot.site_id
        ORDER BY id DESC
        LIMIT 1
    ) AS site ON true
    WHERE slot.start_time >= %(minute)s::timestamptz AND slot.start_time < %(minute)s::timestamptz + interval '1 minute'
), at_site AS MATERIALIZED (
    SELECT
        site_id,
        count(*) AS slots,
        count(*) FILTER (WHERE fate = 'used') AS used,
        count(*) FILTER (WHERE fate = 'given back') AS given_back,
        count(*) FILTER (WHERE fate = 'missed') AS missed,
        count(*) FILTER (WHERE fate = 'void') AS void,
        count(*) FILTER (WHERE fate = 'unreported') AS unreported,
        coalesce(ceil(60 / extract(epoch FROM avg("interval"))), count(*))::bigint AS allowed
    FROM slot
    GROUP BY site_id
), ended AS MATERIALIZED (
    SELECT
        site_id, state, lateness_ms,
        CASE WHEN state = 'failed' THEN weir_history_failure_reason(error) END AS reason,
        CASE WHEN lateness_ms IS NOT NULL THEN coalesce(
            (%(bounds)s::float8[])[
                1 + width_bucket(lateness_ms, %(bounds)s::float8[]) - (lateness_ms = ANY(%(bounds)s::float8[]))::int
            ]::text,
            'inf'
        ) END AS bucket
    FROM weir_fetches_fetch
    WHERE finished_at >= %(minute)s::timestamptz AND finished_at < %(minute)s::timestamptz + interval '1 minute'
), fetches AS MATERIALIZED (
    SELECT
        site_id, grouping(site_id) = 1 AS is_all,
        count(*) AS fetches,
        count(*) FILTER (WHERE state = 'done') AS done,
        count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE reason = 'refused') AS refused,
        percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_ms
    FROM ended
    GROUP BY GROUPING SETS ((), (site_id))
), ended_email AS MATERIALIZED (
    SELECT state, kind
    FROM weir_mail_email
    WHERE ended_at >= %(minute)s::timestamptz AND ended_at < %(minute)s::timestamptz + interval '1 minute'
), email AS MATERIALIZED (
    SELECT state, count(*) AS emails
    FROM ended_email
    GROUP BY state
), flushed AS MATERIALIZED (
    SELECT coalesce(sum(users), 0) AS users, max(epoch) AS last_epoch
    FROM weir_notifications_flushedepoch
    WHERE epoch > %(epoch)s::bigint AND flushed_at < %(minute)s::timestamptz + interval '1 minute'
), added AS (
    SELECT 'fetches_ended' AS series, state AS label, count(*) AS value FROM ended GROUP BY state
    UNION ALL
    SELECT 'fetch_failures', reason, count(*) FROM ended WHERE reason IS NOT NULL GROUP BY reason
    UNION ALL
    SELECT 'fetch_lateness', bucket, count(*) FROM ended WHERE bucket IS NOT NULL GROUP BY bucket
    UNION ALL
    SELECT 'fetch_lateness_sum_us', '', sum(greatest(lateness_ms, 0) * 1000)::bigint FROM ended
    UNION ALL
    SELECT 'slots', fate, count(*) FROM slot GROUP BY fate
    UNION ALL
    SELECT 'slots_allowed', '', sum(allowed) FROM at_site
    UNION ALL
    SELECT 'emails_ended', state, emails FROM email
    UNION ALL
    SELECT 'emails_sent', CASE WHEN length(kind) <= 40 THEN kind ELSE 'other' END, count(*)
    FROM ended_email
    WHERE state = 'sent'
    GROUP BY 2
    UNION ALL
    SELECT 'unread_flushed', '', users FROM flushed
    UNION ALL
    SELECT 'rollups', '', 1
), totals AS (
    INSERT INTO weir_history_total AS total (series, label, value)
    SELECT series, label, value FROM added WHERE value > 0 ORDER BY series, label
    ON CONFLICT (series, label) DO UPDATE SET value = total.value + excluded.value
), counted AS MATERIALIZED (
    SELECT
        site_id, is_all,
        coalesce(fetches, 0) + coalesce(slots, 0) AS busy,
        coalesce(done, 0) AS done, coalesce(failed, 0) AS failed, coalesce(cancelled, 0) AS cancelled,
        coalesce(refused, 0) AS refused,
        coalesce(used, 0) AS used, coalesce(given_back, 0) AS given_back, coalesce(missed, 0) AS missed,
        coalesce(void, 0) AS void, coalesce(unreported, 0) AS unreported, coalesce(allowed, 0) AS allowed,
        lateness_ms[1] AS p50, lateness_ms[2] AS p99
    FROM (SELECT * FROM fetches WHERE is_all OR site_id IS NOT NULL) AS fetches
    FULL JOIN (
        SELECT false AS is_all, * FROM at_site
        UNION ALL
        SELECT
            true, NULL, sum(slots), sum(used), sum(given_back), sum(missed), sum(void), sum(unreported), sum(allowed)
        FROM at_site
    ) AS slots USING (is_all, site_id)
), sites AS (
    INSERT INTO weir_history_siteminute (
        minute, site_id, fetches_done, fetches_failed, fetches_cancelled, refused,
        slots_used, slots_given_back, slots_missed, slots_void, slots_unreported, slots_allowed,
        lateness_p50_ms, lateness_p99_ms
    )
    SELECT
        %(minute)s::timestamptz, site_id, done, failed, cancelled, refused,
        used, given_back, missed, void, unreported, allowed, p50, p99
    FROM counted
    WHERE %(is_whole)s::bool AND NOT is_all
    ORDER BY busy DESC, site_id
    LIMIT %(most_sites)s
), minute AS (
    INSERT INTO weir_history_minute (
        minute, fetches_done, fetches_failed, fetches_cancelled, refused,
        slots_used, slots_given_back, slots_missed, slots_void, slots_unreported, slots_allowed,
        lateness_p50_ms, lateness_p99_ms, emails_sent, emails_failed, emails_unknown, unread_flushed, has_all_sites
    )
    SELECT
        %(minute)s::timestamptz, max(done), max(failed), max(cancelled), max(refused),
        max(used), max(given_back), max(missed), max(void), max(unreported), max(allowed), max(p50), max(p99),
        coalesce((SELECT emails FROM email WHERE state = 'sent'), 0),
        coalesce((SELECT emails FROM email WHERE state = 'failed'), 0),
        coalesce((SELECT emails FROM email WHERE state = 'unknown'), 0),
        (SELECT users FROM flushed),
        (SELECT count(*) FROM counted WHERE NOT is_all) <= %(most_sites)s
    FROM counted
    WHERE is_all
    HAVING %(is_whole)s::bool
)
UPDATE weir_history_watermark
SET rolled_until = %(minute)s::timestamptz + interval '1 minute',
    epoch = greatest(epoch, (SELECT last_epoch FROM flushed))
WHERE id = 1
