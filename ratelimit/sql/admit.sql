-- Let one request in at `site`; it is to be served `wait_s` seconds from now. No row is returned, and nothing is
-- written, if this is more than `max_wait`, or if there is no such site.
-- Promises: the clock is read under the lock of the site's row (locked clock). A request that is let in has no slot: it
-- counts at its time, however late its process serves it. So no grace is added, and the whole burst can be used.
UPDATE weir_ratelimit_site AS site
SET next_start = weir_ratelimit_next_start(
    greatest(clock_timestamp(), site.next_start, site.paused_until, site.backed_off_until), site.effective_interval
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
RETURNING greatest(0, extract(epoch FROM greatest(
    next_start - effective_interval - weir_ratelimit_tolerance(burst, effective_interval), paused_until, backed_off_until
) - clock_timestamp()))::float8 AS wait_s
