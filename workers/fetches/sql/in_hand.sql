-- Count the `reserved` fetches, which no fetcher has claimed yet, and the `late` ones among them, whose slots have
-- passed. A fetch that may still be claimed after `horizon` seconds, because its site has a long grace, is counted in
-- neither number: if its message was lost, it would be counted for longer than others. Reads only.
SELECT
    count(*) FILTER (WHERE lease_until < now + make_interval(secs => %(delivery)s::float8)) AS late,
    count(*) AS reserved
FROM (
    -- The index weir_fetch_held has a few seconds' worth of fetches (index order, docs/explanation/sql.md).
    SELECT state, lease_until, statement_timestamp() AS now
    FROM weir_fetches_fetch
    WHERE state IN ('reserved', 'running')
    ORDER BY site_id, lease_until
    OFFSET 0
) AS held
WHERE state = 'reserved' AND lease_until < now + make_interval(secs => %(horizon)s::float8 + %(delivery)s::float8)
