-- Remove the time limit of this transaction's statements: a user with too many rows for it could never be judged.
SELECT set_config('statement_timeout', '0', true)
