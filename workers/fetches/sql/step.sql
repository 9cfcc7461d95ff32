-- Correct the times of fetches after PostgreSQL's clock was stepped by `step`. Leases are moved by `step`. If the clock
-- was set back, `not_before` and `due_since` are moved, too, if they were computed from the clock: the fetch was due
-- already, or waits after an attempt, or for its robots.txt or a token. This includes held fetches, which may be queued
-- again. Any other `not_before` is a time that web code has named, and stays. When `on_done` is called again is moved,
-- too, and so are the times of access tokens. So is when a batch calls its task again.
-- Returns one row: how many fetches were changed. Reads the whole table.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), changed AS (
    UPDATE weir_fetches_fetch AS job
    SET lease_until = job.lease_until + %(step)s,
        not_before = CASE WHEN waits.is_moved THEN job.not_before + %(step)s ELSE job.not_before END,
        due_since = CASE WHEN waits.is_moved THEN job.due_since + %(step)s ELSE job.due_since END
    FROM (
        SELECT id, not_before > now AND %(step)s < '0'::interval
            AND (not_before <= now - %(step)s OR attempts > 0 OR due_since IS NOT NULL) AS is_moved
        FROM weir_fetches_fetch, clock
        WHERE lease_until IS NOT NULL OR state = 'queued'
    ) AS waits
    WHERE job.id = waits.id AND (waits.is_moved OR job.lease_until IS NOT NULL)
    RETURNING 1
), called AS (
    UPDATE weir_fetches_fetch
    SET on_done_again_at = on_done_again_at + %(step)s
    WHERE on_done_again_at IS NOT NULL
    RETURNING 1
), renewed AS (
    UPDATE weir_fetches_accesstoken
    SET obtained_at = obtained_at + %(step)s, expires_at = expires_at + %(step)s, refresh_at = refresh_at + %(step)s
), batches AS (
    UPDATE weir_fetches_batch
    SET on_done_again_at = on_done_again_at + %(step)s
    WHERE on_done_again_at IS NOT NULL
)
SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM called) AS changed
