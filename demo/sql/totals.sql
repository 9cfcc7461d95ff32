-- What has become of all fetches so far, and how late their requests were written; NULL before the first.
SELECT
    count(*) FILTER (WHERE state = 'done') AS fetched,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p50_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p99_ms
FROM fetches_fetch
