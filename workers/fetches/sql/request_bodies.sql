-- Read the bodies of the requests of these fetches, of at most `most` bytes each, and the sizes of all. A fetch without a
-- body has no row. Reads only; row look-up (docs/explanation/sql.md).
SELECT
    fetch_id,
    CASE WHEN octet_length(content) <= coalesce(%(most)s::bigint, octet_length(content)) THEN content END AS content,
    octet_length(content) AS size
FROM unnest(%(fetches)s::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM weir_fetches_requestbody WHERE fetch_id = wanted.id OFFSET 0) AS body
