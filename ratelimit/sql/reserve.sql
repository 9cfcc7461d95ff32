-- Reserve `count` starts in lane `site`, or the earliest start that somebody gave back.
-- Promises: the clock is read under the lock of the lane's row, because ON CONFLICT locks before it computes (an UPDATE
-- computes first: where it had to wait, its clock is old); what is returned is committed; where the first start is
-- farther away than `max_wait`, or the lane does not exist, nothing is written and no row comes back.
-- The row that seems to be inserted is the lane's own, so that there always is a conflict.
-- `places` is 0, 1, ... count - 1.
-- Durations (seconds) are reckoned as the rows leave, so that they are not older than the reply.
WITH given_back AS (
    UPDATE ratelimit_slot
    SET released_at = NULL, reserved_at = clock_timestamp()
    WHERE id = (
        SELECT slot.id
        FROM ratelimit_site AS site
        JOIN ratelimit_slot AS slot ON slot.site_id = site.id
        WHERE %(count)s::int = 1 AND site.name = %(site)s
            AND slot.released_at IS NOT NULL AND slot.run_size = 1
            AND slot.start_time > greatest(clock_timestamp(), site.paused_until, site.backed_off_until)
            AND slot.start_time <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
            AND slot.use_until - slot.start_time >= site.effective_grace
        ORDER BY slot.start_time
        LIMIT 1
        FOR UPDATE OF slot SKIP LOCKED
    )
    RETURNING id, site_id, start_time, use_until
), booked AS (
    INSERT INTO ratelimit_site AS site (id, name, "interval", burst, has_backlog, covers_subdomains)
    SELECT id, name, "interval", burst, has_backlog, covers_subdomains
    FROM ratelimit_site
    WHERE name = %(site)s AND NOT EXISTS (SELECT FROM given_back)
    ON CONFLICT (name) DO UPDATE
    SET next_start = greatest(clock_timestamp(), site.next_start, site.paused_until, site.backed_off_until)
        + (%(count)s::int - 1) * site.spacing + site."interval" + site.effective_grace
    WHERE greatest(site.next_start - (site.burst - 1) * site."interval", site.paused_until, site.backed_off_until)
        <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
    RETURNING
        id, "interval", burst, spacing, effective_grace,
        greatest(clock_timestamp(), paused_until, backed_off_until) AS soonest,
        next_start - (%(count)s::int - 1) * spacing - "interval" - effective_grace AS arrival
), granted AS (  -- GCRA: a burst may start before its theoretical arrival, but never before `soonest`
    INSERT INTO ratelimit_slot (site_id, start_time, use_until, run_size, reserved_at)
    SELECT
        id,
        greatest(soonest, arrival + k * spacing - (burst - 1) * "interval"),
        arrival + (%(count)s::int - 1) * spacing + effective_grace,
        %(count)s::int,
        clock_timestamp()
    FROM booked, unnest(%(places)s::int[]) AS k
    RETURNING id, start_time, use_until
)
SELECT
    slot.id,
    extract(epoch FROM slot.start_time - clock_timestamp())::float8 AS wait_s,
    extract(epoch FROM slot.use_until - clock_timestamp())::float8 AS use_until_s,
    extract(epoch FROM slot."interval")::float8 AS interval_s,
    slot.burst
FROM (
    SELECT granted.id, start_time, use_until, "interval", burst FROM granted, booked
    UNION ALL
    SELECT given_back.id, start_time, use_until, "interval", burst
    FROM given_back
    JOIN ratelimit_site AS site ON site.id = given_back.site_id
) AS slot
