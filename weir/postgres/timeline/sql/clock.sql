-- Return PostgreSQL's clock, how many steps of it were settled, and the number. Reads only.
SELECT extract(epoch FROM statement_timestamp())::float8 AS clock_s, steps, number FROM weir_timeline_knowntimeline
