-- Let tasks wait again whose message or whose worker was lost: their lease is over. A short batch; what other
-- transactions hold locked is left to them. Returns them, and whether a worker had held them.
-- Published in vain for the first time, a task keeps its place; after that it waits `pause` seconds, each time twice as
-- long as before, up to `longest`, so that one whose code was removed takes no room from others of its site.
WITH lost AS (
    SELECT id, held_by IS NOT NULL AS was_held
    FROM throttled_postponedtask
    WHERE lease_until < clock_timestamp()
    ORDER BY lease_until
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE throttled_postponedtask AS task
SET published_at = NULL, held_by = NULL, lease_until = NULL,
    not_before = CASE WHEN publications < 2 THEN not_before ELSE
        clock_timestamp() + make_interval(
            secs => least(%(longest)s::float8, %(pause)s::float8 * power(2, least(publications - 2, 30)))
        )
    END
FROM lost
WHERE task.id = lost.id
RETURNING task.task, task.publications, lost.was_held
