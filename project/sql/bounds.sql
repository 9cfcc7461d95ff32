-- Make PostgreSQL end each further statement of this transaction after a second.
SELECT set_config('statement_timeout', '1s', true)
