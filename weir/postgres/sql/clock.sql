-- Return the time by PostgreSQL's clock, in one short round trip. Only reads.
SELECT clock_timestamp() AS now
