-- Lock the watermark, and return the next minute to roll up. Returns no row while another process holds the lock (skip
-- locked), or if that minute ended less than `trail` seconds ago.
--
-- Minutes that began more than `retention` seconds ago are skipped. `is_whole` tells whether the minute began less than
-- `kept` seconds ago: then no row that counts in it can have been purged.
SELECT
    due.minute, due.epoch, due.minute > clock.now - make_interval(secs => %(kept)s::float8) AS is_whole
FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock  -- one clock
CROSS JOIN LATERAL (
    SELECT
        greatest(rolled_until, date_trunc('minute', clock.now - make_interval(secs => %(retention)s::float8), 'UTC')) AS minute,
        epoch
    FROM weir_history_watermark
    WHERE id = 1
    FOR UPDATE SKIP LOCKED
) AS due
WHERE due.minute + interval '1 minute' <= clock.now - make_interval(secs => %(trail)s::float8)
