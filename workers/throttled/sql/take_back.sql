-- Let tasks wait again whose message or worker was lost: their lease is over (short batch, skip locked). Returns these
-- tasks, and whether a worker held them.
--
-- A task whose first message was lost keeps its place in the queue. After later losses it waits for `pause` seconds,
-- each time twice as long as before, up to `longest` seconds: a task whose code was removed must not take the room of
-- the other tasks of its site.
--
-- lost     the tasks, locked
-- waiting  the rows of these tasks, changed
WITH lost AS MATERIALIZED (
    SELECT id, held_by IS NOT NULL AS was_held
    FROM weir_throttled_postponedtask
    WHERE lease_until BETWEEN '-infinity' AND statement_timestamp()  -- few expected
    ORDER BY lease_until
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
), waiting AS (
    UPDATE weir_throttled_postponedtask
    SET published_at = NULL, held_by = NULL, lease_until = NULL,
        not_before = CASE WHEN publications < 2 THEN not_before ELSE
            clock_timestamp() + make_interval(
                secs => least(%(longest)s::float8, %(pause)s::float8 * power(2, least(publications - 2, 30)))
            )
        END
    WHERE id = ANY(ARRAY(SELECT id FROM lost))  -- array look-up
    RETURNING id, task, publications
)
SELECT task, publications, was_held
FROM waiting
JOIN lost USING (id)
