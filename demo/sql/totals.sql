-- How many fetches have ended, and how late their requests were written, in ms; NULL before the first request.
SELECT
    count(*) FILTER (WHERE state = 'done') AS fetched,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p50_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p99_ms
FROM fetches_fetch
