-- Return PostgreSQL's clock, in one short round trip. Reads only.
SELECT clock_timestamp() AS now
