-- What fetchers have in hand: `reserved` fetches that none of them has taken yet, and `late` ones among them, whose
-- slots have passed. Fetches that may still be taken after `horizon` seconds, because their sites have a long grace,
-- count as neither: if their messages are lost, they wait for longer than others should. Reads only.
SELECT
    count(*) FILTER (WHERE lease_until < now + make_interval(secs => %(delivery)s::float8)) AS late,
    count(*) AS reserved
FROM (
    -- By the index weir_fetch_held, which has a few seconds' worth (index order, docs/explanation/sql.md).
    SELECT state, lease_until, statement_timestamp() AS now
    FROM weir_fetches_fetch
    WHERE state IN ('reserved', 'running')
    ORDER BY site_id, lease_until
    OFFSET 0
) AS held
WHERE state = 'reserved' AND lease_until < now + make_interval(secs => %(horizon)s::float8 + %(delivery)s::float8)
