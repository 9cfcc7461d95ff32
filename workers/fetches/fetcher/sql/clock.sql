-- The database's clock, in one short round trip: what a claim's start times are compared with.
SELECT clock_timestamp() AS now
