-- Give slots to the best queued fetches of every lane that is booked less than `lookahead` seconds ahead.
-- Promises: a lane is booked under its row's lock, by the rules of ratelimit/sql/reserve.sql; lanes that somebody
-- else is booking are skipped, never waited for; what is returned is committed. One row a lane: its fetches in the
-- order of their slots (one run, for one fetcher), and whether its queue may be empty now.
WITH lane AS MATERIALIZED (
    SELECT id, "interval", burst, spacing, effective_grace, next_start, paused_until, backed_off_until, max_concurrency
    FROM ratelimit_site
    WHERE has_backlog
        AND next_start < clock_timestamp() + make_interval(secs => %(lookahead)s::float8)
        AND coalesce(paused_until, '-infinity') < clock_timestamp() + make_interval(secs => %(lookahead)s::float8)
        AND coalesce(backed_off_until, '-infinity') < clock_timestamp() + make_interval(secs => %(lookahead)s::float8)
        AND id > %(after)s
    ORDER BY id
    LIMIT %(lanes)s
    FOR NO KEY UPDATE SKIP LOCKED
), timed AS MATERIALIZED (  -- reads the clock when the locks are held
    SELECT lane.*, clock_timestamp() AS now FROM lane
), opened AS MATERIALIZED (
    SELECT timed.*, greatest(now, paused_until, backed_off_until) AS soonest FROM timed
), planned AS MATERIALIZED (
    SELECT
        opened.*,
        arrival,
        least(
            %(longest_run)s::int,
            -- how many slots start before the look-ahead ends
            1 + floor(extract(epoch FROM
                opened.now + make_interval(secs => %(lookahead)s::float8) - arrival + (burst - 1) * "interval"
            ) / extract(epoch FROM spacing)),
            max_concurrency - (
                SELECT count(*) FROM fetches_fetch AS held
                WHERE held.site_id = opened.id AND held.state IN ('reserved', 'running')
                    AND opened.max_concurrency IS NOT NULL
            )
        )::int AS room
    FROM opened, greatest(opened.soonest, opened.next_start) AS arrival
), picked AS MATERIALIZED (
    SELECT
        planned.id AS site_id,
        best.id AS fetch_id,
        row_number() OVER (PARTITION BY planned.id ORDER BY best.priority DESC, best.not_before, best.id) - 1 AS k
    FROM planned
    CROSS JOIN LATERAL (
        SELECT id, priority, not_before
        FROM fetches_fetch
        WHERE site_id = planned.id AND state = 'queued' AND not_before <= planned.now
        ORDER BY priority DESC, not_before, id
        LIMIT greatest(planned.room, 0)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS best
), run AS MATERIALIZED (
    SELECT
        planned.id AS site_id,
        taken,
        planned.arrival + (taken - 1) * planned.spacing AS last_arrival
    FROM planned
    JOIN (SELECT site_id, count(*)::int AS taken FROM picked GROUP BY site_id) AS count_of ON count_of.site_id = planned.id
), assigned AS MATERIALIZED (
    SELECT
        nextval(pg_get_serial_sequence('ratelimit_slot', 'id')) AS slot_id,
        picked.fetch_id,
        picked.k,
        run.site_id,
        run.taken,
        greatest(
            planned.soonest,
            planned.arrival + picked.k * planned.spacing - (planned.burst - 1) * planned."interval"
        ) AS start_time,
        run.last_arrival + planned.effective_grace AS use_until
    FROM picked
    JOIN run ON run.site_id = picked.site_id
    JOIN planned ON planned.id = picked.site_id
), slots AS (
    INSERT INTO ratelimit_slot (id, site_id, start_time, use_until, run_size, reserved_at)
    SELECT slot_id, site_id, start_time, use_until, taken, clock_timestamp() FROM assigned
), fetches AS (
    UPDATE fetches_fetch
    SET state = 'reserved', slot_id = assigned.slot_id,
        lease_until = assigned.use_until + make_interval(secs => %(delivery)s::float8)
    FROM assigned
    WHERE fetches_fetch.id = assigned.fetch_id
), clocks AS (
    UPDATE ratelimit_site
    SET next_start = run.last_arrival + planned."interval" + planned.effective_grace
    FROM run
    JOIN planned ON planned.id = run.site_id
    WHERE ratelimit_site.id = run.site_id
)
SELECT
    planned.id AS site_id,
    coalesce(array_agg(assigned.fetch_id ORDER BY assigned.k) FILTER (WHERE assigned.fetch_id IS NOT NULL), '{}') AS fetch_ids,
    count(assigned.fetch_id) < planned.room AS drained
FROM planned
LEFT JOIN assigned ON assigned.site_id = planned.id
GROUP BY planned.id, planned.room
ORDER BY planned.id
