-- Reserve `count` new starts at `site`. `places` is 0, 1, ... count - 1.
-- Promises: the clock is read under the lock of the site's row (locked clock, docs/explanation/sql.md). Returned slots
-- are committed. No row is returned, and nothing is written, if the first start is farther away than `max_wait`, if
-- there is no such site, or if a given-back slot should be taken first (take_given_back.sql). The durations `wait_s`
-- and `use_until_s` err on the safe side (safe duration). `added_grace` is the time of the process' round trips in
-- seconds, which is added to the site's grace.
-- `server_s` is how long the server took for the statement, which does not count as a part of the round trip.
--
-- reserved  the site, its clock moved
-- granted   the slots
WITH reserved AS (
    UPDATE weir_ratelimit_site AS site
    SET next_start = weir_ratelimit_next_start(
        greatest(clock_timestamp(), site.next_start, site.paused_until, site.backed_off_until)
        + weir_ratelimit_run_length(
            %(count)s::int, site.spacing, site.effective_grace + make_interval(secs => %(added_grace)s::float8)
        ),
        site.effective_interval
    )
    WHERE site.ctid = ANY(ARRAY[  -- newest version: the one that is locked, and the one that is seen
        (
            SELECT ctid FROM weir_ratelimit_site
            WHERE (name, id) >= ((SELECT %(site)s::text), 0) AND name <= (SELECT %(site)s::text)
            ORDER BY name DESC
            LIMIT 1
            FOR NO KEY UPDATE
        ),
        (
            SELECT ctid FROM weir_ratelimit_site
            WHERE (name, id) >= ((SELECT %(site)s::text), 0) AND name <= (SELECT %(site)s::text)
            ORDER BY name DESC
            LIMIT 1
        )
    ])
        AND (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
        AND greatest(
            site.next_start - weir_ratelimit_tolerance(site.burst, site.effective_interval),
            site.paused_until, site.backed_off_until
        ) <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
        AND NOT EXISTS (
            SELECT FROM weir_ratelimit_slot AS slot
            WHERE slot.site_id = site.id AND %(count)s::int = 1 AND weir_ratelimit_may_be_taken(
                slot,
                greatest(clock_timestamp(), site.paused_until, site.backed_off_until),
                site.next_start - weir_ratelimit_tolerance(site.burst, site.effective_interval),
                site.effective_interval, site.effective_grace + make_interval(secs => %(added_grace)s::float8),
                site.recalled_slot
            )
        )
    RETURNING
        site.id, effective_interval, burst, spacing, split_until IS NOT NULL AS was_split,
        effective_grace + make_interval(secs => %(added_grace)s::float8) AS grace,
        greatest(clock_timestamp(), paused_until, backed_off_until) AS soonest,
        next_start - effective_interval - weir_ratelimit_run_length(
            %(count)s::int, spacing, effective_grace + make_interval(secs => %(added_grace)s::float8)
        ) AS arrival
), granted AS (
    -- GCRA: the starts of a burst may lie before their theoretical arrival, but not before `soonest`. At an idle site,
    -- `arrival` is a clock that was read a moment before `soonest`; the first start is then at `arrival`, so that the
    -- second keeps its distance.
    INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at)
    SELECT
        id,
        weir_ratelimit_start(
            k, arrival, least(soonest, arrival), spacing, weir_ratelimit_tolerance(burst, effective_interval)
        ),
        arrival + weir_ratelimit_run_length(%(count)s::int, spacing, grace),
        effective_interval,
        %(count)s::int,
        clock_timestamp()
    FROM reserved, unnest(%(places)s::int[]) AS k
    RETURNING id, start_time, use_until
)
SELECT
    granted.id,
    extract(epoch FROM start_time - clock_timestamp())::float8 AS wait_s,
    extract(epoch FROM use_until - statement_timestamp())::float8 AS use_until_s,
    extract(epoch FROM effective_interval)::float8 AS interval_s,
    burst,
    extract(epoch FROM grace)::float8 AS grace_s,
    extract(epoch FROM arrival - clock_timestamp())::float8 AS arrival_s,
    was_split,
    extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS server_s
FROM granted, reserved
ORDER BY granted.id
