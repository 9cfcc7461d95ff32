-- Add drifts to stored numbers that have not changed since the drift was found. Returns the users whose numbers had
-- not. A second reconciler that found the same drift finds the number changed, and adds nothing. What was repaired is
-- noted in the same transaction. The one row of reconciliation is locked last, when all users' rows are: flushes wait
-- for these, and never for that one.
--
-- wrong      the drifts that were found
-- unchanged  those whose stored numbers are what they were, locked in order
-- repaired   the users whose numbers were changed
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
), repaired AS (
    UPDATE weir_notifications_unreadcount AS stored SET unread_count = stored.unread_count + unchanged.drift
    FROM unchanged WHERE stored.user_id = unchanged.user_id
    RETURNING stored.user_id, unchanged.drift
), noted AS (
    INSERT INTO weir_notifications_repair (repaired_at, users, drift)
    SELECT clock_timestamp(), count(*), sum(abs(drift)) FROM repaired HAVING count(*) > 0
), counted AS (
    UPDATE weir_notifications_reconciliation SET repaired_users = repaired_users + (SELECT count(*) FROM repaired)
    WHERE (SELECT count(*) FROM repaired) > 0
)
SELECT user_id FROM repaired
