-- Lock these sites, so that nothing is reserved there and nothing about them changes; those that another transaction has
-- locked are left out (skip locked). To be executed before the statement that judges them, which so has a newer snapshot.
SELECT id, name FROM weir_ratelimit_site WHERE id = ANY(%(sites)s::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
