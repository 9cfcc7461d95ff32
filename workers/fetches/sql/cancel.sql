-- Cancel a fetch that has not been started, and give its slot to its successor: the next fetch in the site's queue,
-- which takes the cancelled fetch's place in the run. An earlier statement of the transaction (lock_unfinished.sql) has
-- locked the fetch, so this statement sees the slot that the fetch has.
-- A running fetch can be cancelled only while its slot starts more than `confirmed_for` seconds from now: a fetcher
-- relies on a confirmation for that long, and would learn too late that the slot was passed on (`passed_on_at`).
-- Without a successor, the slot of a reserved fetch is given back. The slot of a running fetch is left empty, because
-- a reservation might take it before the fetcher knows that the fetch was cancelled.
-- If the site was ever split, the slot is not given to a successor, which might be a stray (strays.py). Nor is that of a
-- running fetch given to one with another method than GET, by the trigger weir_fetches_keep_away: its fetcher may be of
-- the version before, which would send a GET.
--
-- chosen     the fetch, if it is not too late to cancel it
-- moved      the fetch, cancelled
-- next       the first fetch in the queue
-- successor  the same fetch, in the slot
-- slots      what became of the slot
WITH chosen AS MATERIALIZED (
    SELECT job.id, job.site_id, job.slot_id, job.state, job.lease_until, job.claimed_by, slot.start_time
    FROM weir_fetches_fetch AS job
    LEFT JOIN weir_ratelimit_slot AS slot ON slot.id = job.slot_id
    WHERE job.id = %(fetch)s AND (
        job.state IN ('queued', 'reserved')
        OR job.state = 'running' AND slot.start_time > clock_timestamp() + make_interval(secs => %(confirmed_for)s::float8)
    )
), moved AS (
    UPDATE weir_fetches_fetch AS job
    SET state = 'cancelled', finished_at = clock_timestamp(), lease_until = NULL, slot_id = NULL
    FROM chosen
    WHERE job.id = chosen.id
    RETURNING job.id
), next AS (
    SELECT waiting.id, chosen.slot_id, chosen.state, chosen.lease_until, chosen.claimed_by
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT id
        FROM weir_fetches_fetch
        WHERE site_id = chosen.site_id AND state = 'queued' AND not_before <= statement_timestamp()
        ORDER BY priority DESC, not_before, id
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS waiting
    WHERE chosen.start_time > clock_timestamp() AND (
        SELECT split_until FROM weir_ratelimit_site WHERE id = chosen.site_id
    ) IS NULL
), successor AS (
    UPDATE weir_fetches_fetch AS job
    SET state = next.state, slot_id = next.slot_id, lease_until = next.lease_until, claimed_by = next.claimed_by,
        in_hand = false,  -- as in claim.sql, and the next
        headers_key = weir_fetches_headers_key(
            (
                SELECT CASE WHEN query IS NULL THEN headers ELSE jsonb_build_array(headers, query) END
                FROM weir_ratelimit_site WHERE id = job.site_id
            ),
            job.request_headers, job.has_left_origin
        )
    FROM next
    WHERE job.id = next.id
    RETURNING job.slot_id
), slots AS (
    UPDATE weir_ratelimit_slot_use AS slot
    SET released_at = CASE
            WHEN chosen.state = 'reserved' AND NOT EXISTS (SELECT FROM successor) AND slot.finished_at IS NULL
            THEN coalesce(slot.released_at, clock_timestamp()) ELSE slot.released_at END,
        passed_on_at = CASE WHEN chosen.state = 'running' THEN clock_timestamp() ELSE slot.passed_on_at END
    FROM chosen
    WHERE slot.id = chosen.slot_id
)
SELECT id FROM moved
