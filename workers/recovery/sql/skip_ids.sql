-- Move the sequences of these tables ahead by `ahead` ids, so that no id is given twice. Returns the first new id of
-- each table.
SELECT name, setval(sequence, nextval(sequence) + %(ahead)s::bigint) AS id
FROM unnest(%(tables)s::text[]) AS name
CROSS JOIN LATERAL (SELECT pg_get_serial_sequence(quote_ident(name), 'id')::regclass AS sequence OFFSET 0) AS found
WHERE sequence IS NOT NULL
