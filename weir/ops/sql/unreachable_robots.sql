-- Count the robots.txt files that could not be fetched, among the `most` files that expire next. Weir goes on asking
-- for such files (few expected, index order). Only reads.
SELECT count(*) FILTER (WHERE state = 'unreachable') AS unreachable
FROM (
    SELECT state
    FROM weir_fetches_robotsfile
    WHERE expires_at BETWEEN statement_timestamp() AND 'infinity'
    ORDER BY expires_at
    LIMIT %(most)s
) AS file
