-- The first failed fetches (NULL: all) with these ids, and why they failed. Reads only.
SELECT url, error
FROM fetches_fetch
WHERE id BETWEEN %(first)s AND %(last)s AND id <@ %(ids)s::int8multirange AND state = 'failed'
ORDER BY id
LIMIT %(most)s::bigint
