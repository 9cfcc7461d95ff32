-- Remove the time limit of this transaction's statements: an epoch too large for the limit could never be flushed.
SELECT set_config('statement_timeout', '0', true)
