-- Return whether no other transaction gathers notifications for digests; until this one ends, no other does.
SELECT pg_try_advisory_xact_lock(hashtextextended('weir digests', 0)) AS begins
