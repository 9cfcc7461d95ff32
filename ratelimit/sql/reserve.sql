-- Reserve `count` new starts in lane `site`. `places` is 0, 1, ... count - 1.
-- Promises: the clock is read under the lock of the lane's row, which the inner SELECT takes before anything else is
-- reckoned (an UPDATE alone reckons first, and where it then has to wait its clock is old); what is returned is
-- committed. No row comes back, and nothing is written, where the first start is farther away than `max_wait`, where
-- the lane does not exist, and where somebody gave a start back that should be taken first (take_given_back.sql).
-- Durations in seconds: `wait_s` from when the rows leave, which is before the reply arrives; `use_until_s` from when
-- the statement came, which is after it was sent.
WITH booked AS (
    UPDATE ratelimit_site AS site
    SET next_start = greatest(clock_timestamp(), site.next_start, site.paused_until, site.backed_off_until)
        + (%(count)s::int - 1) * site.spacing + site.effective_interval + site.effective_grace
    FROM (SELECT id FROM ratelimit_site WHERE name = %(site)s FOR NO KEY UPDATE) AS locked
    WHERE site.id = locked.id
        AND greatest(site.next_start - (site.burst - 1) * site.effective_interval, site.paused_until, site.backed_off_until)
            <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
        AND NOT EXISTS (
            SELECT FROM ratelimit_slot AS slot
            WHERE slot.site_id = site.id AND slot.released_at IS NOT NULL AND slot.run_size = 1
                AND slot.start_time > greatest(clock_timestamp(), site.paused_until, site.backed_off_until)
                AND slot.start_time <= site.next_start - (site.burst - 1) * site.effective_interval
                AND slot.use_until - slot.start_time >= site.effective_grace AND slot."interval" >= site.effective_interval
                AND slot.id > site.recalled_slot
                AND %(count)s::int = 1
        )
    RETURNING
        site.id, effective_interval, burst, spacing, effective_grace,
        greatest(clock_timestamp(), paused_until, backed_off_until) AS soonest,
        next_start - (%(count)s::int - 1) * spacing - effective_interval - effective_grace AS arrival
), granted AS (
    -- GCRA: a burst may start before its theoretical arrival, but never before `soonest`; that was read after the
    -- `arrival` of an idle lane, whose first start is not to be late for the second.
    INSERT INTO ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at)
    SELECT
        id,
        greatest(least(soonest, arrival), arrival + k * spacing - (burst - 1) * effective_interval),
        arrival + (%(count)s::int - 1) * spacing + effective_grace,
        effective_interval,
        %(count)s::int,
        clock_timestamp()
    FROM booked, unnest(%(places)s::int[]) AS k
    RETURNING id, start_time, use_until
)
SELECT
    granted.id,
    extract(epoch FROM start_time - clock_timestamp())::float8 AS wait_s,
    extract(epoch FROM use_until - statement_timestamp())::float8 AS use_until_s,
    extract(epoch FROM effective_interval)::float8 AS interval_s,
    burst
FROM granted, booked
ORDER BY granted.id
