-- What fetchers have in hand: `reserved` fetches that none of them has taken yet, `late` ones among them, whose slots have
-- passed, and `ended_per_s`, what has ended in the last `lately` seconds. Reads only.
SELECT
    count(*) FILTER (
        WHERE state = 'reserved' AND lease_until < statement_timestamp() + make_interval(secs => %(delivery)s::float8)
    ) AS late,
    count(*) FILTER (WHERE state = 'reserved') AS reserved,
    (
        SELECT count(*) / %(lately)s::float8
        FROM fetches_fetch
        WHERE finished_at BETWEEN statement_timestamp() - make_interval(secs => %(lately)s::float8) AND 'infinity'  -- few expected
    ) AS ended_per_s
FROM (
    -- By the index fetch_held, which has a few seconds' worth (index order, docs/explanation/sql.md).
    SELECT state, lease_until
    FROM fetches_fetch
    WHERE state IN ('reserved', 'running')
    ORDER BY site_id, lease_until
    OFFSET 0
) AS held
