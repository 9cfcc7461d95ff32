-- Take the earliest future slot at `site` that was given back. A recall at the same time comes before this statement,
-- and the old slot is void, or after it, and makes the new slot void (site first). A slot that was reserved alone is a
-- whole run, so any process may take its place. A slot that another process is taking is skipped (skip locked).
-- The taken slot gets a new id: if its former holder gives the old slot back a second time, this changes no row.
--
-- site     the site's row, locked (newest version, docs/explanation/sql.md)
-- vacated  the old slot, deleted
-- taken    the new slot
WITH site AS MATERIALIZED (
    SELECT * FROM weir_ratelimit_site
    WHERE (name, id) >= ((SELECT %(site)s::text), 0) AND name <= (SELECT %(site)s::text)
    ORDER BY name DESC
    LIMIT 1
    FOR NO KEY UPDATE
), vacated AS (
    DELETE FROM weir_ratelimit_slot
    WHERE id = (
        SELECT slot.id
        FROM site
        JOIN weir_ratelimit_slot AS slot ON slot.site_id = site.id
        WHERE (SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange))  -- gate
            AND slot.start_time <= clock_timestamp() + make_interval(secs => %(max_wait)s::float8)
            AND weir_ratelimit_may_be_taken(
                slot,
                greatest(clock_timestamp(), site.paused_until, site.backed_off_until),
                site.next_start - weir_ratelimit_tolerance(site.burst, site.effective_interval),
                site.effective_interval, site.effective_grace + make_interval(secs => %(added_grace)s::float8),
                site.recalled_slot
            )
        ORDER BY slot.start_time
        LIMIT 1
        FOR UPDATE OF slot SKIP LOCKED
    )
    RETURNING site_id, start_time, use_until, "interval"
), taken AS (
    INSERT INTO weir_ratelimit_slot (site_id, start_time, use_until, "interval", run_size, reserved_at)
    SELECT site_id, start_time, use_until, "interval", 1, clock_timestamp() FROM vacated
    RETURNING id, site_id, start_time, use_until
)
SELECT
    taken.id,
    extract(epoch FROM start_time - clock_timestamp())::float8 AS wait_s,
    extract(epoch FROM use_until - statement_timestamp())::float8 AS use_until_s,
    extract(epoch FROM site.effective_interval)::float8 AS interval_s,
    burst,
    extract(epoch FROM site.effective_grace)::float8 + %(added_grace)s::float8 AS grace_s,
    extract(epoch FROM use_until - site.effective_grace - clock_timestamp())::float8 AS arrival_s,
    split_until IS NOT NULL AS was_split,
    extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 AS server_s
FROM taken
JOIN site ON site.id = taken.site_id
