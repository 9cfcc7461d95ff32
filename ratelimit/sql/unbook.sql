-- Set lanes' clocks back, to `retry` seconds from now, where these slots were booked in vain: where one was reserved alone,
-- was given back, and nothing was booked in its lane since. A lane of one start a day would otherwise lose a day because
-- of a message that came late. Faster lanes are left as they are: while nobody can use slots, they must not be booked
-- more often than their rate says.
-- Promises: no start is granted twice. The lane's row is locked before the slot's, so that whoever takes the given-back
-- start (take_given_back.sql) comes before, and the slot is gone, or after: it is deleted here, for nobody to take.
-- Lanes that somebody else keeps are passed over. A slot that was recalled had another rate, and the clock with it.
WITH lane AS MATERIALIZED (
    SELECT site.id, next_start, recalled_slot, effective_interval
    FROM ratelimit_site AS site
    WHERE site.id = ANY(ARRAY(SELECT site_id FROM ratelimit_slot WHERE id = ANY(%(slots)s) AND run_size = 1))
        AND effective_interval > make_interval(secs => %(retry)s::float8)
    ORDER BY site.id
    FOR NO KEY UPDATE SKIP LOCKED
), slot AS MATERIALIZED (
    SELECT slot.id, slot.site_id
    FROM ratelimit_slot AS slot
    JOIN lane ON lane.id = slot.site_id
    WHERE slot.id = ANY(%(slots)s) AND slot.run_size = 1 AND slot.released_at IS NOT NULL AND slot.finished_at IS NULL
        AND slot.id > lane.recalled_slot AND slot.use_until + lane.effective_interval = lane.next_start
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
