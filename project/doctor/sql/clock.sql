-- Return the time by PostgreSQL's clock, in seconds since 1970. Reads only.
SELECT extract(epoch FROM clock_timestamp())::float8 AS seconds
