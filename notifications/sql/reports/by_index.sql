-- Have the rest of the transaction read rows by indexes, in their order, however many PostgreSQL expects.
SELECT
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_sort', 'off', true)
