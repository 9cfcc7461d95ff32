-- Give slots to the best queued fetches of every site that is reserved less than `refill` seconds ahead, up to
-- `lookahead` seconds ahead. If `sites` is not NULL, only these sites are looked at. At most `most` sites, after site
-- `after`, get slots, and no further site once the sites before it may get `most_slots` slots.
-- No slot starts sooner than `travel` seconds from now, because its message has to arrive first. Idle sites start
-- `apart` seconds after each other, in `phases` turns at most: if they started together, their starts would coincide
-- again at every interval.
-- `added_grace` seconds, for the round trips of the fetchers, are added to the grace of each site.
-- Promises: a site is reserved under its row's lock, by the rules of ratelimit/sql/reserve.sql. Sites that another
-- transaction has locked are skipped, never waited for. So are sites that were reserved ahead and recalled less than
-- `confirmed_for` seconds ago, because their clock may still be set back (pull_back.sql). Returned slots are committed.
-- Each site has one row: its new slots in order (one run, for one fetcher), whether its queue may be empty now, and
-- whether the site was ever split. If it was, there may be strays among the fetches, even if the split was committed
-- after this statement began, and the caller looks again (strays.py).
-- At a site with `max_concurrency`, a new run may have as many fetches in flight as earlier runs leave over, and its
-- holder keeps to that number. If such a site was reserved since this statement began, it gets no slots now: only the
-- next statement sees all of its runs.
--
-- clock     the clock, read once for all sites (one clock): for a site that is looked at later, it is a little slow
-- due       the sites that are due, locked
-- timed     the same sites, with the clock read under the locks
-- opened    the soonest start of each site
-- planned   how many slots each site may get
-- within    the sites before which fewer than `most_slots` slots may be given, and whether they have shares: all of
--           these together look at 5,000 shares in vain, so that they do not keep the other sites waiting
-- picked    the best fetches of these sites, locked: one row for each fetch, and one for a site without a fetch; where a
--           site has shares, they take turns (weir_fetches_in_turn). Of the site, only what is used below: there may be
--           tens of thousands of rows, which are kept three times
-- chosen    the fetches that get slots; if a robots.txt is among them, only robots.txt files: the others wait for it
-- assigned  the slot and start of each fetch
-- turned    whose turn it is after these fetches
-- moved     the new clock of each site, and whether this statement sees the version of the site's row that is locked
-- slots, fetches  what is written
-- clocks    the sites' rows, by their places (newest version)
-- replaced  the rows that other transactions have replaced since this statement began, which sees their old versions
WITH clock AS MATERIALIZED (
    SELECT
        now + make_interval(secs => %(refill)s::float8) AS refilled_until,
        now + make_interval(secs => %(lookahead)s::float8) AS looked_ahead_until,
        now - make_interval(secs => %(confirmed_for)s::float8) AS confirmed_since,
        now
    FROM clock_timestamp() AS now
), due AS MATERIALIZED (
    SELECT
        id, ctid AS place, effective_interval, burst, spacing, next_start, paused_until, backed_off_until, max_concurrency,
        weights, turn_share, turn_used,
        effective_grace + make_interval(secs => %(added_grace)s::float8) AS effective_grace,
        split_until IS NOT NULL AS was_split
    FROM weir_ratelimit_site
    WHERE has_backlog
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
        AND next_start - weir_ratelimit_tolerance(burst, effective_interval) < (SELECT refilled_until FROM clock)
        AND coalesce(paused_until, '-infinity') < (SELECT looked_ahead_until FROM clock)
        AND coalesce(backed_off_until, '-infinity') < (SELECT looked_ahead_until FROM clock)
        AND (
            coalesce(recalled_at, '-infinity') < (SELECT confirmed_since FROM clock)
            OR next_start <= (SELECT now FROM clock) + burst * effective_interval
        )
        AND id > %(after)s
        AND (%(sites)s::bigint[] IS NULL OR id = ANY(%(sites)s))
    ORDER BY id
    LIMIT %(most)s
    FOR NO KEY UPDATE SKIP LOCKED
), timed AS MATERIALIZED (
    SELECT due.*, clock_timestamp() AS now FROM due
), opened AS MATERIALIZED (
    SELECT
        timed.*,
        greatest(
            now + make_interval(secs => %(travel)s::float8 + CASE WHEN next_start < now THEN
                %(apart)s::float8 * mod(count(*) FILTER (WHERE next_start < now) OVER (ORDER BY id), %(phases)s::bigint)
            ELSE 0 END),
            paused_until,
            backed_off_until
        ) AS soonest
    FROM timed
), planned AS MATERIALIZED (
    SELECT
        opened.*,
        arrival,
        at_once,
        CASE WHEN at_once <= 0 THEN 0 ELSE least(
            %(longest_run)s::int,
            -- an equal share of the slots that may still be given
            greatest(%(fewest)s::bigint, %(most_slots)s::bigint / count(*) OVER ()),
            -- how many slots start before the look-ahead ends
            weir_ratelimit_room(
                opened.now + make_interval(secs => %(lookahead)s::float8) - arrival
                    + weir_ratelimit_tolerance(burst, effective_interval),
                spacing
            )
        ) END::int AS room
    FROM opened
    CROSS JOIN greatest(opened.soonest, opened.next_start) AS arrival
    CROSS JOIN LATERAL (  -- what the runs that still have held fetches leave of the concurrency; NULL: any number
        SELECT CASE
            WHEN opened.max_concurrency IS NULL THEN NULL
            WHEN opened.next_start <> (
                SELECT next_start FROM weir_ratelimit_site  -- newest version
                WHERE (id, name) >= (opened.id, '') AND id <= opened.id
                ORDER BY id DESC
                LIMIT 1
            ) THEN 0
            ELSE opened.max_concurrency - coalesce(sum(least(run.at_once, run.fetches)), 0)
        END::int AS at_once
        FROM (
            SELECT slot.at_once, count(*) AS fetches
            FROM weir_fetches_fetch AS held
            JOIN weir_ratelimit_slot AS slot ON slot.id = held.slot_id
            WHERE held.site_id = opened.id AND held.state IN ('reserved', 'running')
                AND opened.max_concurrency IS NOT NULL
            GROUP BY slot.use_until, slot.at_once
        ) AS run
    ) AS left_over
), within AS MATERIALIZED (
    SELECT
        planned.*,
        least(1000, greatest(20, 5000 / greatest(1, count(*) FILTER (WHERE has_shares) OVER ())))::int AS looks
    FROM (
        SELECT
            planned.*,
            (  -- first row
                SELECT share FROM weir_fetches_fetch AS job
                WHERE job.site_id = planned.id AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share IS NOT NULL
                ORDER BY job.share, job.priority DESC, job.not_before, job.id
                LIMIT 1
            ) IS NOT NULL AS has_shares
        FROM (SELECT planned.*, sum(room) OVER (ORDER BY id) - room AS slots_before FROM planned) AS planned
        WHERE slots_before < %(most_slots)s::bigint
        OFFSET 0  -- has_shares is read twice, and is to be looked up once
    ) AS planned
), picked AS MATERIALIZED (
    SELECT
        within.id, place, effective_interval, burst, spacing, effective_grace, was_split, soonest, arrival, at_once, room,
        turn_share, turn_used,
        best.id AS fetch_id,
        best.priority,
        best.not_before,
        best.is_robots,
        best.turn,
        best.share,
        best.in_turn,
        bool_or(best.is_robots) OVER (PARTITION BY within.id) AS robots_first
    FROM within
    LEFT JOIN LATERAL (
        -- One priority after the other, the best first (index jump, docs/explanation/sql.md): before PostgreSQL 18, one
        -- scan of all priorities would also read the fetches that are not due yet.
        WITH RECURSIVE level AS (
            (
                SELECT job.priority FROM weir_fetches_fetch AS job
                WHERE job.site_id = within.id AND job.state = 'queued'
                ORDER BY job.priority DESC, job.not_before, job.id
                LIMIT 1
            )
            UNION ALL
            SELECT next.priority
            FROM level
            CROSS JOIN LATERAL (
                SELECT job.priority FROM weir_fetches_fetch AS job
                WHERE job.site_id = within.id AND job.state = 'queued' AND job.priority < level.priority
                ORDER BY job.priority DESC, job.not_before, job.id
                LIMIT 1
            ) AS next
        )
        (
            SELECT due_job.*, 0 AS turn, NULL::text AS share, NULL::int AS in_turn
            FROM level
            CROSS JOIN LATERAL (
                SELECT id, priority, not_before, is_robots
                FROM weir_fetches_fetch
                WHERE site_id = within.id AND state = 'queued' AND priority = level.priority AND not_before <= within.now
                ORDER BY not_before, id
                LIMIT greatest(within.room, 0)
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS due_job
            WHERE NOT within.has_shares
            LIMIT greatest(within.room, 0)
        )
        UNION ALL
        SELECT due_job.*, next.place, next.share, next.in_turn
        FROM weir_fetches_in_turn(
            within.id, greatest(within.room, 0), within.now, within.weights, coalesce(within.turn_share, ''), within.turn_used,
            within.looks
        ) AS next
        CROSS JOIN LATERAL (
            SELECT id, priority, not_before, is_robots
            FROM weir_fetches_fetch
            WHERE id = next.fetch_id AND state = 'queued'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS due_job
        WHERE within.has_shares
    ) AS best ON true
), chosen AS MATERIALIZED (
    SELECT
        id, place, effective_interval, burst, spacing, effective_grace, was_split, soonest, arrival, at_once, room,
        turn_share, turn_used, fetch_id, share, in_turn,
        row_number() OVER site_queue - 1 AS k,
        count(fetch_id) OVER (PARTITION BY id) AS taken
    FROM picked
    WHERE is_robots OR NOT coalesce(robots_first, false)
    WINDOW site_queue AS (PARTITION BY id ORDER BY turn, priority DESC, not_before, fetch_id)
), assigned AS MATERIALIZED (
    SELECT
        id, place, effective_interval, effective_grace, was_split, at_once, room, turn_share, turn_used, fetch_id, share,
        in_turn, k, taken,
        CASE WHEN fetch_id IS NOT NULL THEN nextval(sequence) END AS slot_id,
        weir_ratelimit_start(
            k, arrival, soonest, spacing, weir_ratelimit_tolerance(burst, effective_interval)
        ) AS start_time,
        arrival + weir_ratelimit_run_length(taken, spacing, effective_grace) AS use_until
    FROM chosen, (SELECT pg_get_serial_sequence('weir_ratelimit_slot', 'id')::regclass AS sequence OFFSET 0) AS slot_ids
), slots AS (
    INSERT INTO weir_ratelimit_slot (id, site_id, start_time, use_until, "interval", run_size, at_once, reserved_at)
    SELECT slot_id, id, start_time, use_until, effective_interval, taken, at_once, clock_timestamp()
    FROM assigned
    WHERE fetch_id IS NOT NULL
), fetches AS (
    UPDATE weir_fetches_fetch
    SET state = 'reserved', slot_id = assigned.slot_id,
        lease_until = assigned.start_time + effective_grace + make_interval(secs => %(delivery)s::float8)
    -- True condition (docs/explanation/sql.md).
    FROM (SELECT * FROM assigned WHERE fetch_id = abs(fetch_id) AND slot_id = abs(slot_id)) AS assigned
    WHERE weir_fetches_fetch.id = assigned.fetch_id
), turned AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, share, in_turn FROM assigned WHERE in_turn IS NOT NULL ORDER BY id, k DESC
), moved AS MATERIALIZED (
    SELECT
        first.id, first.place, weir_ratelimit_next_start(use_until, effective_interval) AS next_start,
        coalesce(turned.share, first.turn_share) AS turn_share, coalesce(turned.in_turn, first.turn_used) AS turn_used,
        seen.place IS NOT NULL AS is_seen
    FROM (
        SELECT id, place, use_until, effective_interval, turn_share, turn_used
        FROM assigned
        WHERE k = 0 AND fetch_id IS NOT NULL
    ) AS first
    LEFT JOIN turned ON turned.id = first.id
    LEFT JOIN LATERAL (SELECT ctid AS place FROM weir_ratelimit_site WHERE ctid = first.place OFFSET 0) AS seen ON true
), clocks AS (
    UPDATE weir_ratelimit_site
    SET next_start = moved.next_start, turn_share = moved.turn_share, turn_used = moved.turn_used
    FROM (SELECT place, next_start, turn_share, turn_used FROM moved WHERE is_seen) AS moved
    WHERE weir_ratelimit_site.ctid = moved.place
), replaced AS (
    UPDATE weir_ratelimit_site
    SET next_start = moved.next_start, turn_share = moved.turn_share, turn_used = moved.turn_used
    FROM (SELECT id, next_start, turn_share, turn_used FROM moved WHERE NOT is_seen) AS moved
    WHERE weir_ratelimit_site.id = moved.id
        AND weir_ratelimit_site.id = ANY(ARRAY(SELECT id FROM moved WHERE NOT is_seen))  -- array look-up
)
SELECT
    id AS site_id,
    coalesce(array_agg(slot_id ORDER BY k) FILTER (WHERE fetch_id IS NOT NULL), '{}') AS slot_ids,
    count(fetch_id) < room AS drained,
    was_split
FROM assigned
GROUP BY id, room, was_split
ORDER BY id
