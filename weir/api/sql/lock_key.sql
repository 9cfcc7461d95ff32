-- Lock the key until this transaction ends, without waiting. Returns false if another transaction has the lock.
SELECT pg_try_advisory_xact_lock(%(key)s::bigint) AS is_ours
