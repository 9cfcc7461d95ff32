-- Count how the fetches with these ids ended: how many ended with each state and status code, with or without an
-- attempt. Reads only.
SELECT state, status_code, attempts > 0 AS was_tried, count(*) AS fetches
FROM weir_fetches_fetch
WHERE id BETWEEN %(first)s AND %(last)s AND id <@ %(ids)s::int8multirange AND finished_at IS NOT NULL
GROUP BY state, status_code, was_tried
ORDER BY fetches DESC, status_code, was_tried
