-- Have the rest of the transaction count by indexes, however many rows PostgreSQL expects: where a state was common when
-- it gathered its statistics, and is not any more, it would read the whole table in search of it.
SELECT set_config('enable_seqscan', 'off', true)
