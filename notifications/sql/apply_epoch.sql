-- Add the deltas of one epoch to the stored numbers, once, however many flushers try.
--
-- The row in flushedepoch commits together with the numbers. If the row exists already, the statement writes nothing.
-- It also refuses an epoch at or below the highest flushed one, because a stored number's epoch says that all earlier
-- epochs are in the number, too. While another flusher applies an epoch, the statement returns is_busy and writes
-- nothing. It does not wait, because waiting would keep a worker from other work. Users are written in the order of
-- their ids, which prevents deadlocks. If there is a cap, users whose number is above the cap are noted, which never
-- waits, either.
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(x'466c7573'::int) AS is_mine  -- "Flus"
), fresh AS (
    INSERT INTO weir_notifications_flushedepoch (epoch, users, flushed_at)
    SELECT %(epoch)s::bigint, cardinality(%(users)s::user_key[]), clock_timestamp()
    FROM turn
    WHERE is_mine AND NOT EXISTS (SELECT FROM weir_notifications_flushedepoch WHERE epoch >= %(epoch)s::bigint)
    ON CONFLICT (epoch) DO NOTHING
    RETURNING epoch
), written AS (
    INSERT INTO weir_notifications_unreadcount AS stored (user_id, unread_count, epoch)
    SELECT delta.user_id, delta.change, fresh.epoch
    FROM fresh CROSS JOIN unnest(%(users)s::user_key[], %(deltas)s::bigint[]) AS delta(user_id, change)
    ORDER BY delta.user_id
    ON CONFLICT (user_id) DO UPDATE
    SET unread_count = stored.unread_count + excluded.unread_count, epoch = excluded.epoch
    RETURNING user_id, unread_count
), noted AS (
    INSERT INTO weir_notifications_excess (user_id)
    SELECT user_id FROM written WHERE %(cap)s::bigint > 0 AND unread_count > %(cap)s::bigint
)
SELECT NOT is_mine AS is_busy, (SELECT count(*) FROM fresh) AS epochs, (SELECT count(*) FROM written) AS users FROM turn
