-- Take the earliest future start at `site` that was given back. The site's row is locked first: a recall that is just
-- being made comes before, and forbids the old slot, or after, and voids the new one. A start that was reserved alone is
-- the whole of its run, so any process may have its place; one that another process is just taking is skipped. It
-- becomes a slot with an id of its own: the holder that gave the old one back may do so again, and touches nothing.
--
-- vacated  the old slot, deleted
-- taken    the new one
WITH vacated AS (
    DELETE FROM ratelimit_slot
    WHERE id = (
        SELECT slot.id
        FROM (SELECT * FROM ratelimit_site WHERE name = %(site)s FOR NO KEY UPDATE) AS site
        JOIN ratelimit_slot AS slot ON slot.site_id = site.id
        WHERE slot.start_time <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
            AND ratelimit_may_be_taken(
                slot,
                greatest(clock_timestamp(), site.paused_until, site.backed_off_until),
                site.next_start - (site.burst - 1) * site.effective_interval,
                site.effective_interval, site.effective_grace, site.recalled_slot
            )
        ORDER BY slot.start_time
        LIMIT 1
        FOR UPDATE OF slot SKIP LOCKED
    )
    RETURNING site_id, start_time, use_until, "interval"
), taken AS (
    INSERT INTO ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at)
    SELECT site_id, start_time, use_until, "interval", 1, clock_timestamp() FROM vacated
    RETURNING id, site_id, start_time, use_until
)
SELECT
    taken.id,
    extract(epoch FROM start_time - clock_timestamp())::float8 AS wait_s,
    extract(epoch FROM use_until - statement_timestamp())::float8 AS use_until_s,
    extract(epoch FROM site.effective_interval)::float8 AS interval_s,
    burst
FROM taken
JOIN ratelimit_site AS site ON site.id = taken.site_id
