-- Read the bodies of the requests of these fetches, in their order: as many as have `most` bytes together, and the first
-- one if `is_empty`. The others are NULL. A fetch without a body has no row. Reads only; row look-up
-- (docs/explanation/sql.md).
SELECT
    fetch_id,
    CASE WHEN sum(octet_length(content)) OVER ordered <= %(most)s::bigint OR %(is_empty)s::bool AND row_number() OVER ordered = 1
        THEN content END AS content
FROM unnest(%(fetches)s::bigint[]) WITH ORDINALITY AS wanted (id, place)
CROSS JOIN LATERAL (SELECT * FROM weir_fetches_requestbody WHERE fetch_id = wanted.id OFFSET 0) AS body
WINDOW ordered AS (ORDER BY place)
