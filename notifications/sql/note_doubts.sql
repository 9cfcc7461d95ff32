-- Note users whose number may be wrong. Readers count these users' rows until reconciliation has looked at them.
-- Doubts are written in the order of the users' ids, which prevents deadlocks.
WITH noted AS (
    INSERT INTO weir_notifications_doubt AS doubt (user_id, noted_at)
    SELECT user_id, clock_timestamp() FROM unnest(%(users)s::user_key[]) AS doubtful(user_id) ORDER BY user_id
    ON CONFLICT (user_id) DO UPDATE SET noted_at = excluded.noted_at
    RETURNING 1
)
SELECT count(*) AS noted FROM noted
