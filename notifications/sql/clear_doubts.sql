-- End doubts that heal has looked into, unless they were noted again since.
WITH cleared AS (
    DELETE FROM notifications_doubt AS doubt
    USING unnest(%(users)s::bigint[], %(noted)s::timestamptz[]) AS looked(user_id, noted_at)
    WHERE doubt.user_id = looked.user_id AND doubt.noted_at = looked.noted_at
    RETURNING 1
)
SELECT count(*) AS cleared FROM cleared
