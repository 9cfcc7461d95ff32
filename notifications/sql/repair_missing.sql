-- Store the drifts of users who had no stored number when the drift was found. Returns the users who still had none.
-- What was repaired is noted in the same transaction, as by repair.sql.
WITH wrong AS (
    SELECT * FROM unnest(%(users)s::user_key[], %(drifts)s::bigint[]) AS found(user_id, drift)
), repaired AS (
    INSERT INTO weir_notifications_unreadcount (user_id, unread_count, epoch)
    SELECT user_id, drift, 0 FROM wrong
    ORDER BY user_id
    ON CONFLICT (user_id) DO NOTHING
    RETURNING user_id, unread_count AS drift
), noted AS (
    INSERT INTO weir_notifications_repair (repaired_at, users, drift)
    SELECT clock_timestamp(), count(*), sum(abs(drift)) FROM repaired HAVING count(*) > 0
), counted AS (
    UPDATE weir_notifications_reconciliation SET repaired_users = repaired_users + (SELECT count(*) FROM repaired)
    WHERE (SELECT count(*) FROM repaired) > 0
)
SELECT user_id FROM repaired
