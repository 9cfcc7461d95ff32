-- Read the URL and the error of the first `most` failed fetches (NULL: of all) with these ids. Reads only.
SELECT url, error
FROM weir_fetches_fetch
WHERE id BETWEEN %(first)s AND %(last)s AND id <@ %(ids)s::int8multirange AND state = 'failed'
ORDER BY id
LIMIT %(most)s::bigint
