-- Wait for other transactions that set this user's read mark, and keep others waiting until this one ends.
SELECT pg_advisory_xact_lock(hashtextextended(%(user)s::user_key::text, x'52656164'::int))  -- "Read"
