-- How many fetches have ended, how many failed of pages that the sites break (demo/workload.py), and how late their requests were written, in ms; NULL before the first request.
SELECT
    count(*) FILTER (WHERE state = 'done') AS fetched,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'failed' AND url ~ '/(status/500/[0-9]+|close)$') AS failed_on_purpose,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p50_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY lateness_ms) AS lateness_p99_ms
FROM weir_fetches_fetch
