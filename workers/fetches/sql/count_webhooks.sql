-- Count the unfinished webhooks of an endpoint, up to `most`. Index: weir_fetch_of_endpoint (unknown limit,
-- docs/explanation/sql.md). Reads only.
SELECT count(*) FROM (
    SELECT FROM weir_fetches_fetch
    WHERE endpoint_id = %(endpoint)s AND state IN ('queued', 'reserved', 'running')
    LIMIT (SELECT %(most)s::bigint)
) AS unfinished
