-- Return the time by PostgreSQL's clock, how many steps of the clock were settled, and the generation. Only reads.
SELECT extract(epoch FROM statement_timestamp())::float8 AS clock_s, steps, number AS generation FROM weir_timeline_knowntimeline
