-- Read the limits and formats of a session without Weir's own settings. Reads only.
SELECT
    pg_backend_pid() AS pid,
    current_setting('statement_timeout') AS statement_timeout,
    current_setting('idle_in_transaction_session_timeout') AS idle_timeout,
    current_setting('default_transaction_isolation') AS isolation,
    pg_jit_available() AND current_setting('jit')::bool AS compiles,
    current_setting('intervalstyle') AS interval_style,
    current_setting('datestyle') AS date_style,
    current_setting('extra_float_digits')::int AS float_digits,
    current_setting('array_nulls')::bool AS array_nulls
