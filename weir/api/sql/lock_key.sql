-- Whether this transaction has the key now, until it ends; false where another one has it. Waits for nobody.
SELECT pg_try_advisory_xact_lock(%(key)s::bigint) AS is_ours
