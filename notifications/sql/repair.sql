-- Add drifts to stored numbers that have not changed since the drift was found: where `epochs` has a user's epoch. Where
-- that is NULL, the user had no stored number, and the drift becomes it, if there is still none. Returns the users whose
-- numbers were repaired. A second reconciler that found the same drift finds another number, and adds nothing. What was
-- repaired is noted in the same transaction. The one row of reconciliation is locked last, when all users' rows are:
-- flushes wait for these, and never for that one. Either all epochs are NULL, or none: who locked some users in order,
-- and then others, could deadlock with a flush.
--
-- wrong      the drifts that were found
-- unchanged  those whose stored numbers are what they were, locked in order
-- changed    the users whose numbers were changed
-- added      the users who had none
-- repaired   both
-- noted      one row about all of them
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
