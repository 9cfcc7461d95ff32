-- Return PostgreSQL's clock, how many steps of it were settled, and the generation. Reads only.
SELECT extract(epoch FROM statement_timestamp())::float8 AS clock_s, steps, number AS generation FROM weir_timeline_knowntimeline
