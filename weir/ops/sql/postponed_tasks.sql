-- Count the throttled tasks that wait in PostgreSQL for their slots, up to `most` + 1 (index order). Only reads.
SELECT count(*) AS waiting
FROM (
    SELECT FROM weir_throttled_postponedtask WHERE published_at IS NULL ORDER BY site, not_before, id LIMIT %(most)s + 1
) AS task
