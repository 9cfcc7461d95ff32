-- Have the rest of the transaction find rows by indexes, however few or many PostgreSQL expects: without statistics it
-- would read whole tables.
SELECT set_config('enable_seqscan', 'off', true)
