-- Set lanes' clocks back to before these slots were booked: where one was reserved alone, was given back, and nothing was
-- booked in its lane since. A lane of one start a day would otherwise lose a day because of a message that came late.
-- Promises: no start is granted twice. The lane's row is locked before the slot's, so that whoever takes the given-back
-- start (take_given_back.sql) comes before, and the slot is gone, or after; what lies in the future still is deleted
-- here, for nobody to take. A slot that was recalled had another rate, and the clock with it.
WITH lane AS MATERIALIZED (
    SELECT site.id, next_start, recalled_slot, effective_interval, effective_grace
    FROM ratelimit_site AS site
    WHERE site.id = ANY(ARRAY(SELECT site_id FROM ratelimit_slot WHERE id = ANY(%(slots)s) AND run_size = 1))
    ORDER BY site.id
    FOR NO KEY UPDATE
), slot AS MATERIALIZED (
    SELECT slot.id, slot.site_id, slot.use_until
    FROM ratelimit_slot AS slot
    JOIN lane ON lane.id = slot.site_id
    WHERE slot.id = ANY(%(slots)s) AND slot.run_size = 1 AND slot.released_at IS NOT NULL AND slot.finished_at IS NULL
        AND slot.id > lane.recalled_slot AND slot.use_until + lane.effective_interval = lane.next_start
    FOR UPDATE OF slot
), gone AS (
    DELETE FROM ratelimit_slot
    WHERE id = ANY(ARRAY(SELECT id FROM slot)) AND start_time > statement_timestamp()
), moved AS (
    UPDATE ratelimit_site AS site
    SET next_start = slot.use_until - effective_grace
    FROM slot
    WHERE site.id = slot.site_id
    RETURNING site.id
)
SELECT id FROM moved
