-- Count how the fetches with these ids ended: how many with each state and status code. Reads only.
SELECT state, status_code, count(*) AS fetches
FROM fetches_fetch
WHERE id BETWEEN %(first)s AND %(last)s AND id <@ %(ids)s::int8multirange AND finished_at IS NOT NULL
GROUP BY state, status_code
ORDER BY fetches DESC, status_code
