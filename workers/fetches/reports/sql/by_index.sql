-- Have the rest of the transaction read rows in the order of an index, however few PostgreSQL expects: without statistics
-- it would gather and sort all rows that match before it takes the first ones. `sorts` is on where rows that are equal by
-- the index have to be sorted.
SELECT
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_sort', 'off', true),
    set_config('enable_incremental_sort', %(sorts)s, true)
