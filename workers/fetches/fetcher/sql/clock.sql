-- The database's clock, in one short round trip: the start times of a claim are counted from it. Reads only.
SELECT clock_timestamp() AS now
