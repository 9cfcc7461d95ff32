-- Count fetches, e-mails, sites and doubts by their states, and find the oldest of them. Reads only. No number goes
-- beyond `most`: `most` + 1 stands for more. The statement finds every row through a partial index, or through the
-- order of a primary key, so that the cost does not grow with the tables. Run it after planner.in_index_order, which
-- makes sure of that without statistics. The statement reads only sites that have fetches to come.
--
-- `oldest_due_s` is exact up to `most` queued fetches, and `oldest_due_fetch` is that fetch. If there are more, only the
-- heads of the queues of `heads` sites are looked at beside them. `stalled` sites have fetches that have been due for
-- `stalled_after` seconds although the site's rate would have allowed them; `stalled_fetch` is one of these fetches.
-- `halted` sites have due fetches, and are paused until an operator resumes them; `halted_site` is one of these sites.
-- Up to `few` of the stalled sites, of the halted ones, and of the kinds of e-mails that need somebody are named, those
-- first whose fetches have waited longest, and of which there are most.
-- `uncalled` fetches and batches have ended, and named a task that a worker did not know; most of them `uncalled_task`.
-- `broken_endpoints` receive no webhooks until somebody acts, or for long; `broken_endpoint` is one of them.
--
-- clock   the database's time
-- queued  queued fetches
-- held    fetches that have a slot
-- ended   fetches that ended within an hour, the newest first; `done_or_more`: there are more than were looked at
-- ended_by_state, email_by_state, newest_by_state   the numbers of these
-- cause   why the newest `heads` of those that failed have failed: what the errors say in front of a name, a number or a
--         quotation, but with the status of an answer
-- site    sites that dispatch looks at, or that have fetches which become due
-- held_site  how many of these sites are held, by state
-- head    the first queued fetch of each of `heads` sites that dispatch looks at
-- oldest  the fetch that has been due for longest
-- stalled the heads that could have started
-- halted  the sites whose heads start only if a person acts
-- uncalled fetches and batches whose task is called again, because a worker did not know the task
-- broken  endpoints of webhooks that Weir has paused, or cannot serve, that do not receive a webhook in `failing_tries`
--         attempts, or that have missed events within a day; there are 100 endpoints at most
-- email   e-mails that are pending, claimed, sending or unknown
-- effect  effects that are pending or unknown
-- newest  the newest e-mails, and whether they ended within an hour
-- kinds_in_need  the kinds of the oldest e-mails that are unknown, and of those that have been due for longer than
--         `late`
-- hourly  the history's numbers of e-mails that were sent, that failed, and that ended, within the last hour
-- failing_hour  the last two of these; empty unless at least `failing_least`, and one in `failing_share`, have failed
-- behind  the history's numbers of slots of the last minutes, and of slots that passed before a fetcher took them;
--         empty unless at least `missed_least`, and one in `missed_share`, have passed
-- failing the most frequent failure among the newest e-mails that failed within the last hour: its kind, and one of its
--         replies; replies that begin with the same 30 characters count as one
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), queued AS MATERIALIZED (
    SELECT id, not_before
    FROM weir_fetches_fetch
    WHERE state = 'queued'
    ORDER BY site_id, priority DESC, not_before, id
    LIMIT %(most)s + 1
), held AS MATERIALIZED (
    SELECT state
    FROM weir_fetches_fetch
    WHERE state IN ('reserved', 'running')
    ORDER BY site_id, lease_until
    LIMIT %(most)s + 1
), ended AS MATERIALIZED (
    SELECT state, finished_at
    FROM weir_fetches_fetch
    WHERE finished_at BETWEEN statement_timestamp() - interval '1 hour' AND 'infinity'
    ORDER BY finished_at DESC
    LIMIT %(most)s + 1
), ended_by_state AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE state = 'done') AS done,
        count(*) > %(most)s AND count(*) FILTER (WHERE state = 'done') <= %(most)s AS done_or_more,
        count(*) FILTER (WHERE finished_at > statement_timestamp() - interval '1 minute')::float8 / CASE
            WHEN count(*) <= %(most)s THEN 60
            ELSE least(60, greatest(1, extract(epoch FROM statement_timestamp() - min(finished_at))))
        END AS ended_per_s
    FROM ended
), failed AS MATERIALIZED (  -- however many others have ended since
    SELECT left(error, 100) AS error
    FROM weir_fetches_fetch
    WHERE state = 'failed' AND finished_at BETWEEN statement_timestamp() - interval '1 hour' AND 'infinity'
    ORDER BY finished_at DESC, id DESC
    LIMIT %(most)s + 1
), cancelled AS MATERIALIZED (
    SELECT
    FROM weir_fetches_fetch
    WHERE state = 'cancelled' AND finished_at BETWEEN statement_timestamp() - interval '1 hour' AND 'infinity'
    ORDER BY finished_at DESC, id DESC
    LIMIT %(most)s + 1
), cause AS MATERIALIZED (
    SELECT coalesce(
        nullif(rtrim(substring(error FROM '^(?:the site answered [0-9]{3}|[^0-9:;,''"(/]*)')), ''), left(error, 30)
    ) AS cause
    FROM (SELECT error FROM failed LIMIT %(heads)s) AS newest_failed
), site AS MATERIALIZED (
    (
        SELECT
            id, name, true AS is_active, paused_until, backed_off_until, refused_until, backoff_error, is_silent, next_start,
            max_concurrency
        FROM weir_ratelimit_site
        WHERE has_backlog
        ORDER BY id
        LIMIT %(most)s + 1
    )
    UNION ALL
    (
        SELECT
            id, name, false, paused_until, backed_off_until, refused_until, backoff_error, is_silent, next_start,
            max_concurrency
        FROM weir_ratelimit_site
        WHERE due_at IS NOT NULL
        ORDER BY due_at
        LIMIT %(most)s + 1
    )
), held_site AS MATERIALIZED (
    SELECT state, count(*) AS sites
    FROM (
        SELECT weir_ratelimit_held_state(
            paused_until, backed_off_until, refused_until, backoff_error, is_silent, true, now
        ) AS state
        FROM clock, site
    ) AS judged
    GROUP BY state
), head AS MATERIALIZED (
    SELECT job.*, site.name, site.next_start, max_concurrency, greatest(paused_until, backed_off_until) AS held_until
    FROM (SELECT * FROM site WHERE is_active LIMIT %(heads)s) AS site
    CROSS JOIN LATERAL (
        SELECT id, not_before
        FROM weir_fetches_fetch
        WHERE site_id = site.id AND state = 'queued'
        ORDER BY priority DESC, not_before, id
        LIMIT 1
    ) AS job
), stalled AS MATERIALIZED (
    SELECT id, name, greatest(not_before, next_start, held_until) AS since
    FROM head, clock
    WHERE greatest(not_before, next_start, held_until) < now - make_interval(secs => %(stalled_after)s::float8)
        AND max_concurrency IS NULL
), halted AS MATERIALIZED (
    SELECT name, not_before AS since FROM head, clock WHERE not_before <= now AND held_until >= %(forever)s
), oldest AS MATERIALIZED (
    SELECT due.id, due.not_before
    FROM (SELECT id, not_before FROM queued UNION ALL SELECT id, not_before FROM head) AS due, clock
    WHERE due.not_before <= now
    ORDER BY due.not_before, due.id
    LIMIT 1
), uncalled AS MATERIALIZED (
    (
        SELECT on_done, 'on_done' AS parameter
        FROM weir_fetches_fetch
        WHERE on_done_again_at IS NOT NULL
        ORDER BY on_done_again_at
        LIMIT %(most)s + 1
    )
    UNION ALL
    (
        SELECT on_done, 'on_batch_done' AS parameter
        FROM weir_fetches_batch
        WHERE on_done_again_at IS NOT NULL
        ORDER BY on_done_again_at
        LIMIT %(most)s + 1
    )
    LIMIT %(most)s + 1
), broken AS MATERIALIZED (
    SELECT
        endpoint.id, name,
        coalesce(
            nullif(pause_reason, ''), nullif(endpoint.error, ''), failing.error, 'events were deleted undelivered'
        ) AS error
    FROM (SELECT * FROM weir_webhooks_endpoint ORDER BY id) AS endpoint
    LEFT JOIN LATERAL (
        SELECT error
        FROM weir_fetches_fetch
        WHERE endpoint_id = endpoint.id AND state = 'queued' AND attempts >= %(failing_tries)s
        ORDER BY endpoint_id, state, finished_at
        LIMIT 1
    ) AS failing ON true
    WHERE CASE
        WHEN paused_at IS NOT NULL THEN pause_reason <> ''
        ELSE endpoint.error <> '' OR failing.error IS NOT NULL
            OR missed_at > statement_timestamp() - interval '1 day'
    END
), email AS MATERIALIZED (
    (
        SELECT state, next_attempt_at AS since
        FROM weir_mail_email
        WHERE state = 'pending'
        ORDER BY next_attempt_at, id
        LIMIT %(most)s + 1
    )
    UNION ALL
    (
        SELECT state, sending_since
        FROM weir_mail_email
        WHERE state IN ('claimed', 'sending', 'unknown')
        ORDER BY state DESC, sending_since
        LIMIT %(most)s + 1
    )
), email_by_state AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE state = 'pending') AS pending,
        count(*) FILTER (WHERE state IN ('claimed', 'sending')) AS sending,
        count(*) FILTER (WHERE state = 'claimed') AS claimed,
        count(*) FILTER (WHERE state = 'unknown') AS unknown,
        min(since) FILTER (WHERE state = 'pending') AS pending_since,
        min(since) FILTER (WHERE state = 'unknown') AS unknown_since
    FROM email
), effect AS MATERIALIZED (
    (
        SELECT state, next_attempt_at AS since
        FROM weir_effects_effect
        WHERE state = 'pending'
        ORDER BY next_attempt_at, id
        LIMIT %(most)s + 1
    )
    UNION ALL
    (
        SELECT state, begun_at
        FROM weir_effects_effect
        WHERE state = 'unknown'
        ORDER BY begun_at
        LIMIT %(most)s + 1
    )
), kinds_in_need AS MATERIALIZED (
    SELECT state, kind, count(*) AS emails
    FROM (
        (
            SELECT state, kind
            FROM weir_mail_email
            WHERE state = 'unknown'
            ORDER BY sending_since
            LIMIT %(heads)s
        )
        UNION ALL
        (
            SELECT state, kind
            FROM weir_mail_email
            WHERE state = 'pending' AND next_attempt_at < statement_timestamp() - make_interval(secs => %(late)s::float8)
            ORDER BY next_attempt_at, id
            LIMIT %(heads)s
        )
    ) AS oldest
    GROUP BY state, kind
), newest AS MATERIALIZED (
    SELECT state, coalesce(ended_at > statement_timestamp() - interval '1 hour', false) AS is_of_hour
    FROM weir_mail_email
    ORDER BY id DESC
    LIMIT %(most)s
), hourly AS MATERIALIZED (
    SELECT
        sum(emails_sent)::bigint AS sent, sum(emails_failed)::bigint AS failed,
        sum(emails_sent + emails_failed + emails_unknown)::bigint AS ended
    FROM weir_history_minute
    WHERE minute > statement_timestamp() - interval '1 hour'
), newest_by_state AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE state = 'sent') AS sent,
        count(*) FILTER (WHERE state = 'failed') AS not_sent,
        least(%(most)s + 1, greatest(
            count(*) FILTER (WHERE state = 'sent' AND is_of_hour),
            CASE WHEN count(*) = %(most)s THEN (SELECT sent FROM hourly) END
        )) AS sent_hour,
        least(%(most)s + 1, greatest(
            count(*) FILTER (WHERE state = 'failed' AND is_of_hour),
            CASE WHEN count(*) = %(most)s THEN (SELECT failed FROM hourly) END
        )) AS failed_hour
    FROM newest
), failing_hour AS MATERIALIZED (
    SELECT failed, ended
    FROM hourly
    WHERE failed >= %(failing_least)s AND failed * %(failing_share)s >= ended
), behind AS MATERIALIZED (
    SELECT sum(slots_missed)::bigint AS missed, sum(slots_used + slots_given_back + slots_missed)::bigint AS slots
    FROM weir_history_minute
    WHERE minute > statement_timestamp() - make_interval(secs => %(missed_within)s::float8)
    HAVING sum(slots_missed) >= %(missed_least)s
        AND sum(slots_missed) * %(missed_share)s >= sum(slots_used + slots_given_back + slots_missed)
), failing AS MATERIALIZED (
    SELECT kind, max(reply) AS reply
    FROM (
        SELECT kind, ended_at, regexp_replace(last_reply, '^Given up after [0-9]+ attempts: ', '') AS reply
        FROM weir_mail_email
        WHERE state = 'failed' AND EXISTS (SELECT FROM failing_hour)
        ORDER BY state DESC, created_at DESC, id DESC
        LIMIT %(heads)s
    ) AS newest_failed
    WHERE ended_at > statement_timestamp() - interval '1 hour'
    GROUP BY kind, left(reply, 30)
    ORDER BY count(*) DESC, kind, 2
    LIMIT 1
)
SELECT
    now,
    (SELECT count(*) FROM queued) AS queued,
    (SELECT count(*) FROM held WHERE state = 'reserved') AS reserved,
    (SELECT count(*) FROM held WHERE state = 'running') AS running,
    done, done_or_more,
    (SELECT count(*) FROM failed) AS failed,
    (SELECT count(*) FROM cancelled) AS cancelled,
    (
        SELECT coalesce(json_object_agg(cause, failed ORDER BY failed DESC, cause), '{}')
        FROM (
            SELECT cause, count(*) AS failed FROM cause GROUP BY cause ORDER BY failed DESC, cause LIMIT %(few)s
        ) AS most_frequent
    ) AS failed_because,
    ended_per_s,
    (SELECT extract(epoch FROM now - not_before)::float8 FROM oldest) AS oldest_due_s,
    (SELECT id FROM oldest) AS oldest_due_fetch,
    (SELECT count(*) FROM site) AS sites,
    coalesce((SELECT sites FROM held_site WHERE state = 'paused'), 0) AS paused,
    coalesce((SELECT sites FROM held_site WHERE state = 'backed off'), 0) AS backed_off,
    coalesce((SELECT sites FROM held_site WHERE state = 'resting'), 0) AS resting,
    coalesce((SELECT sites FROM held_site WHERE state = 'unreachable'), 0) AS unreachable,
    (SELECT count(*) FROM stalled) AS stalled,
    (SELECT min(id) FROM stalled) AS stalled_fetch,
    ARRAY(SELECT name FROM stalled ORDER BY since, name LIMIT %(few)s) AS stalled_sites,
    (SELECT count(*) FROM halted) AS halted,
    (SELECT min(name) FROM halted) AS halted_site,
    ARRAY(SELECT name FROM halted ORDER BY since, name LIMIT %(few)s) AS halted_sites,
    (SELECT count(*) FROM uncalled) AS uncalled,
    (SELECT on_done FROM uncalled GROUP BY on_done ORDER BY count(*) DESC, on_done LIMIT 1) AS uncalled_task,
    (SELECT string_agg(DISTINCT parameter, ' and ') FROM uncalled) AS uncalled_as,
    (SELECT count(*) FROM broken) AS broken_endpoints,
    (SELECT min(id) FROM broken) AS broken_endpoint,
    (SELECT name FROM broken ORDER BY id LIMIT 1) AS broken_endpoint_name,
    (SELECT error FROM broken ORDER BY id LIMIT 1) AS broken_endpoint_error,
    (SELECT missed FROM behind) AS missed,
    (SELECT slots FROM behind) AS missed_of,
    (SELECT count(*) FROM (SELECT FROM weir_notifications_doubt LIMIT %(most)s + 1) AS doubt) AS doubts,
    (SELECT trusted FROM weir_notifications_reconciliation LIMIT 1) AS trusted,
    (
        SELECT extract(epoch FROM now - flushed_at)::float8
        FROM weir_notifications_flushedepoch
        ORDER BY epoch DESC
        LIMIT 1
    ) AS flushed_s,
    pending, sending, claimed, unknown,
    extract(epoch FROM now - pending_since)::float8 AS oldest_pending_s,
    extract(epoch FROM now - unknown_since)::float8 AS oldest_unknown_s,
    ARRAY(
        SELECT kind FROM kinds_in_need WHERE state = 'pending' ORDER BY emails DESC, kind LIMIT %(few)s
    ) AS late_kinds,
    ARRAY(
        SELECT kind FROM kinds_in_need WHERE state = 'unknown' ORDER BY emails DESC, kind LIMIT %(few)s
    ) AS unknown_kinds,
    (SELECT count(*) FROM effect WHERE state = 'pending') AS pending_effects,
    (SELECT count(*) FROM effect WHERE state = 'unknown') AS unknown_effects,
    (SELECT extract(epoch FROM now - min(since))::float8 FROM effect WHERE state = 'pending') AS oldest_pending_effect_s,
    (SELECT extract(epoch FROM now - min(since))::float8 FROM effect WHERE state = 'unknown') AS oldest_unknown_effect_s,
    sent, not_sent, sent_hour, failed_hour,
    (SELECT failed FROM failing_hour) AS failing,
    (SELECT ended FROM failing_hour) AS failing_of,
    (SELECT kind FROM failing) AS failing_kind,
    (SELECT reply FROM failing) AS failing_reply,
    (SELECT closed_because FROM weir_timeline_knowntimeline) AS closed_because,
    recovery.ended_at AS recovered_at, recovery.why AS recovered_because, recovery.emails AS recovered_emails
FROM clock
CROSS JOIN ended_by_state
CROSS JOIN email_by_state
CROSS JOIN newest_by_state
LEFT JOIN LATERAL (
    SELECT ended_at, why, emails
    FROM weir_recovery_recovery
    WHERE is_loss AND ended_at > now - make_interval(secs => %(recovered_within)s::float8)
    ORDER BY ended_at DESC
    LIMIT 1
) AS recovery ON true
