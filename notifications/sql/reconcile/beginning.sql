-- The time at which a source begins. What comes later is left to the next pass, so that a pass comes to an end.
SELECT clock_timestamp() AS now
