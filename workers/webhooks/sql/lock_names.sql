-- Wait until no other transaction makes or changes an endpoint, and keep others waiting until this one ends: the name of
-- an endpoint that is not there yet has no row that can be locked.
SELECT pg_advisory_xact_lock(x'486f6f6b'::int)  -- "Hook"
