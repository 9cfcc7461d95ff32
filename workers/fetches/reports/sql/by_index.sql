-- Have the rest of the transaction find rows by indexes: PostgreSQL takes the block range index of slots for useless where
-- it has no statistics, and would read all slots.
SELECT set_config('enable_seqscan', 'off', true)
