-- Return the seconds until the first of `count` starts, if they were reserved now. They are infinite while the site is
-- paused until it is resumed. Reads only. The answer holds until the next reservation. The clock is read once (one
-- clock).
SELECT CASE WHEN planned.paused_until >= %(forever)s THEN 'infinity'::float8 ELSE extract(epoch FROM coalesce(
    (
        SELECT min(slot.start_time)
        FROM weir_ratelimit_slot AS slot
        WHERE slot.site_id = planned.id AND %(count)s::int = 1 AND weir_ratelimit_may_be_taken(
            slot, soonest, first_start, effective_interval,
            effective_grace + make_interval(secs => %(added_grace)s::float8), recalled_slot
        )
    ),
    planned.first_start
) - planned.now)::float8 END AS wait_s
FROM (
    SELECT
        opened.*,
        greatest(soonest, next_start - weir_ratelimit_tolerance(burst, effective_interval)) AS first_start
    FROM (
        SELECT timed.*, greatest(now, paused_until, backed_off_until) AS soonest
        FROM (
            SELECT id, effective_interval, burst, effective_grace, next_start, paused_until, backed_off_until,
                recalled_slot,
                clock_timestamp() AS now
            FROM weir_ratelimit_site
            WHERE (name, id) >= ((SELECT %(site)s::text), 0) AND name <= (SELECT %(site)s::text)
            ORDER BY name DESC  -- newest version (docs/explanation/sql.md)
            LIMIT 1  -- one clock
        ) AS timed
    ) AS opened
) AS planned
