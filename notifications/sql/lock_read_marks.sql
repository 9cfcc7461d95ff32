-- Wait for another transaction that sets this user's read mark, and make others wait until this transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(%(user)s::user_key::text, x'52656164'::int))  -- "Read"
