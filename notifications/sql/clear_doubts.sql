-- Delete doubts that reconciliation has looked into, except doubts that were noted again since.
-- The rows are locked in the order in which note_doubts.sql writes them, which prevents deadlocks.
WITH old AS (
    SELECT doubt.user_id
    FROM weir_notifications_doubt AS doubt
    JOIN unnest(%(users)s::user_key[], %(noted)s::timestamptz[]) AS looked(user_id, noted_at)
        ON doubt.user_id = looked.user_id AND doubt.noted_at = looked.noted_at
    ORDER BY doubt.user_id
    FOR UPDATE OF doubt
), cleared AS (
    DELETE FROM weir_notifications_doubt AS doubt USING old WHERE doubt.user_id = old.user_id
    RETURNING 1
)
SELECT count(*) AS cleared FROM cleared
