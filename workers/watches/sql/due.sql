-- Lock the watches that are due, in the caller's transaction, the longest due first, at most `batch` of them. A watch
-- that another transaction has locked is left to the next tick (skip locked, index order, few expected, unknown limit:
-- docs/explanation/sql.md).
SELECT id, url, dedupe_key, priority, revalidate, request_headers::text AS request_headers, nullif(share, '') AS share
FROM weir_watches_watch
WHERE next_at BETWEEN '-infinity' AND statement_timestamp()
ORDER BY next_at
LIMIT (SELECT %(batch)s::bigint)
FOR NO KEY UPDATE SKIP LOCKED
