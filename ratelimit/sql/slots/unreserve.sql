-- Set sites' clocks back, to `retry` seconds from now, where these slots were reserved in vain: where one was reserved
-- alone, was given back, and nothing was reserved at its site since. A site of one start a day would otherwise lose a
-- day because of a message that came late. Faster sites are left as they are: while nothing can use slots, they must
-- not be reserved more often than their rate says.
-- Promises: no start is granted twice. The site's row is locked before the slot's, so that a process that takes the
-- given-back start (take_given_back.sql) comes before, and the slot is gone, or after: it is deleted here, and no
-- process takes it. Sites that another transaction holds are passed over. A slot that was recalled had another rate, and the
-- clock with it.
--
-- slow   the slow ones, locked
-- slot   those that were reserved in vain, locked
-- gone   their slots, deleted
-- moved  their clocks, set back
WITH slow AS MATERIALIZED (
    SELECT site.id, next_start, recalled_slot, effective_interval
    FROM ratelimit_site AS site
    WHERE site.id = ANY(ARRAY(SELECT site_id FROM ratelimit_slot WHERE id = ANY(%(slots)s) AND run_size = 1))
        AND effective_interval > make_interval(secs => %(retry)s::float8)
    ORDER BY site.id
    FOR NO KEY UPDATE SKIP LOCKED
), slot AS MATERIALIZED (
    SELECT slot.id, slot.site_id
    FROM ratelimit_slot AS slot
    JOIN slow ON slow.id = slot.site_id
    WHERE slot.id = ANY(%(slots)s) AND slot.run_size = 1 AND slot.released_at IS NOT NULL AND slot.finished_at IS NULL
        AND slot.id > slow.recalled_slot AND slot.use_until + slow.effective_interval = slow.next_start
    FOR UPDATE OF slot
), gone AS (
    DELETE FROM ratelimit_slot WHERE id = ANY(ARRAY(SELECT id FROM slot))
), moved AS (
    UPDATE ratelimit_site AS site
    SET next_start = least(next_start, greatest(
        next_start - effective_interval - effective_grace, clock_timestamp() + make_interval(secs => %(retry)s::float8)
    ))
    FROM slot
    WHERE site.id = slot.site_id
    RETURNING site.id
)
SELECT id FROM moved
