-- Take the fetches of watches that have ended and wait to be judged: of the first `look` ends, all that no other
-- transaction has taken. Returns a row for each end that was looked at, NULL for one that is not taken.
-- Promises: of one watch, only the fetch that ended first is taken, so the fetches of a watch are judged in their order;
-- and no two transactions take the same one (skip locked, second look: docs/explanation/sql.md).
--
-- ended  the ends (index order: weir_fetch_to_be_judged)
-- first  the first one of each watch
WITH ended AS MATERIALIZED (
    SELECT id, dedupe_key, finished_at
    FROM weir_fetches_fetch
    WHERE finished_at IS NOT NULL AND on_done_called_at IS NULL AND on_done = %(on_done)s
    ORDER BY finished_at
    LIMIT (SELECT %(look)s::bigint)  -- unknown limit
), first AS MATERIALIZED (
    SELECT ended.*, row_number() OVER (PARTITION BY dedupe_key ORDER BY finished_at, id) = 1 AS is_first FROM ended
)
SELECT job.id AS fetch_id
FROM first
LEFT JOIN LATERAL (  -- row look-up; for a condition on `finished_at`, all of weir_fetch_to_be_judged might be read
    SELECT id FROM weir_fetches_fetch
    WHERE first.is_first AND weir_fetches_fetch.id = first.id AND on_done_called_at IS NULL AND on_done = %(on_done)s
        AND state IN ('done', 'failed', 'cancelled')
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
) AS job ON true
ORDER BY first.finished_at
