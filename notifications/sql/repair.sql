-- Add drifts to stored numbers, if these have not changed since the drift was found. If a user's epoch in `epochs` is
-- NULL, the user had no stored number. Then the drift becomes the stored number, if there is still none. Returns the
-- users whose numbers were repaired. A second reconciler that found the same drift finds another number, and adds
-- nothing. The repair is recorded in the same transaction.
-- The one row of reconciliation is locked last, after all users' rows: flushes wait for users' rows, but never for that
-- row. Either all epochs are NULL, or none is: a transaction that locked some users in order, and then others, could
-- deadlock with a flush.
--
-- wrong      the drifts that were found
-- unchanged  the drifts whose stored numbers have not changed, locked in order
-- changed    the users whose stored numbers were changed
-- added      the users who had no stored number
-- repaired   changed and added users
-- noted      one row about all repaired users
-- counted    the total of repaired users, which only grows
WITH wrong AS (
    SELECT * FROM unnest(
        %(users)s::user_key[], %(drifts)s::bigint[], %(unread_counts)s::bigint[], %(epochs)s::bigint[]
    ) AS found(user_id, drift, unread_count, epoch)
), unchanged AS (
    SELECT stored.user_id, wrong.drift
    FROM weir_notifications_unreadcount AS stored JOIN wrong ON wrong.user_id = stored.user_id
    WHERE stored.unread_count = wrong.unread_count AND stored.epoch = wrong.epoch
    ORDER BY stored.user_id
    FOR UPDATE OF stored
), changed AS (
    UPDATE weir_notifications_unreadcount AS stored SET unread_count = stored.unread_count + unchanged.drift
    FROM unchanged WHERE stored.user_id = unchanged.user_id
    RETURNING stored.user_id, unchanged.drift
), added AS (
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch)
    SELECT user_id, drift, 0 FROM wrong
    WHERE epoch IS NULL
    ORDER BY user_id
    ON CONFLICT (user_id) DO NOTHING
    RETURNING user_id, unread_count AS drift
), repaired AS (
    SELECT user_id, drift FROM changed UNION ALL SELECT user_id, drift FROM added
), noted AS (
    INSERT INTO weir_notifications_repair (repaired_at, users, drift)
    SELECT clock_timestamp(), count(*), sum(abs(drift)) FROM repaired HAVING count(*) > 0
), counted AS (
    UPDATE weir_notifications_reconciliation SET repaired_users = repaired_users + (SELECT count(*) FROM repaired)
    WHERE (SELECT count(*) FROM repaired) > 0
)
SELECT user_id FROM repaired
