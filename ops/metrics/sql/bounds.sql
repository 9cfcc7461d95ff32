-- Have PostgreSQL end each further statement of this transaction after a second: a scrape waits no longer for a number.
SELECT set_config('statement_timeout', '1s', true)
