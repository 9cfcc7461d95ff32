-- Set the clock of a site back, to `retry` seconds from now, if one of these slots was reserved alone, was given back,
-- and is the last slot that was reserved there. A site with one start a day would otherwise lose a day because one
-- message came late. The clock of a site with a shorter interval than `retry` does not change: while no holder can use
-- its slots, such a site must not be reserved more often than its rate allows.
-- Promises: no start is granted twice. A process that takes the given-back slot at the same time (take_given_back.sql)
-- comes before this statement, which then finds no slot, or after it, and then finds none itself (site first). Sites
-- that another transaction has locked are left out (skip locked). So are recalled slots, because a recall may have
-- changed the site's clock together with the rate.
--
-- slow   the slow sites, locked
-- slot   their slots that fulfil the conditions, locked
-- gone   these slots, deleted
-- moved  their sites, the clock set back
WITH slow AS MATERIALIZED (
    SELECT site.id, next_start, recalled_slot, effective_interval
    FROM weir_ratelimit_site AS site
    WHERE site.id = ANY(ARRAY(
        SELECT slot.site_id
        FROM weir_ratelimit_slot AS slot
        CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md): the versions of a busy site are not read
            SELECT effective_interval FROM weir_ratelimit_site
            WHERE (id, name) >= (slot.site_id, '') AND id <= slot.site_id
            ORDER BY id DESC
            LIMIT 1
        ) AS slotted
        WHERE slot.id = ANY(%(slots)s) AND slot.run_size = 1
            AND slotted.effective_interval > make_interval(secs => %(retry)s::float8)
    ))
        AND effective_interval > make_interval(secs => %(retry)s::float8)
    ORDER BY site.id
    FOR NO KEY UPDATE SKIP LOCKED
), slot AS MATERIALIZED (
    SELECT slot.id, slot.site_id
    FROM weir_ratelimit_slot AS slot
    JOIN slow ON slow.id = slot.site_id
    WHERE slot.id = ANY(%(slots)s) AND slot.run_size = 1 AND slot.released_at IS NOT NULL AND slot.finished_at IS NULL
        AND slot.id > slow.recalled_slot
        AND weir_ratelimit_next_start(slot.use_until, slow.effective_interval) = slow.next_start
    FOR UPDATE OF slot
), gone AS (
    DELETE FROM weir_ratelimit_slot WHERE id = ANY(ARRAY(SELECT id FROM slot))
), moved AS (
    UPDATE weir_ratelimit_site AS site
    SET next_start = least(next_start, greatest(
        next_start - effective_interval - effective_grace, clock_timestamp() + make_interval(secs => %(retry)s::float8)
    ))
    FROM slot
    WHERE site.id = slot.site_id
    RETURNING site.id
)
SELECT id FROM moved
