-- Lock these sites, so that nothing is reserved there and nothing about them changes. Sites that another transaction
-- has locked are left out (skip locked). Execute this before the statement that judges the sites, so that the latter
-- has a newer snapshot.
SELECT id, name FROM weir_ratelimit_site WHERE id = ANY(%(sites)s::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
