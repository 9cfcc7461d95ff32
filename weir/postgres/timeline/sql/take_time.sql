-- Let the statements of this transaction take as long as they need.
SELECT set_config('statement_timeout', '0', true)
