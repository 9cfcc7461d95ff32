-- Put the times of fetches right, after PostgreSQL's clock was stepped by `step`. Leases are moved. Where the clock was set
-- back, so is when a fetch becomes due, if that counts from the clock: it was due already, or waits after an attempt, or
-- for its robots.txt (held ones, too: they may be queued again). Other times are those that web code has named, and stay.
-- Returns one row: how many were changed. Reads the whole table.
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
)
SELECT count(*) AS changed FROM changed
