-- Let watches be due again in a period each, from now on: `fetches` has the fetch that was queued for each, NULL where
-- one was unfinished. The caller's transaction has locked the watches.
UPDATE weir_watches_watch AS watch
SET next_at = clock_timestamp() + period * (1 + jitter * (2 * random() - 1)),
    asked_at = CASE WHEN asked.fetch_id IS NULL THEN watch.asked_at ELSE clock_timestamp() END,
    fetch_id = coalesce(asked.fetch_id, watch.fetch_id)
FROM (
    SELECT * FROM unnest(%(watches)s::bigint[], %(fetches)s::bigint[]) AS given (watch_id, fetch_id)
    WHERE watch_id = abs(watch_id)  -- true condition (docs/explanation/sql.md)
) AS asked
WHERE watch.id = asked.watch_id
