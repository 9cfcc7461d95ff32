-- Count the throttled tasks that wait for their slots in PostgreSQL, up to `most` + 1 (index order). Reads only.
SELECT count(*) AS waiting
FROM (
    SELECT FROM weir_throttled_postponedtask WHERE published_at IS NULL ORDER BY site, not_before, id LIMIT %(most)s + 1
) AS task
