-- Lock the key until this transaction ends, without waiting; returns false if another transaction has it.
SELECT pg_try_advisory_xact_lock(%(key)s::bigint) AS is_ours
