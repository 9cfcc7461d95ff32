-- Read a page of a sealed epoch's deltas: user, delta, user, delta, ... KEYS: its deltas. ARGV: first and last place.
-- Scores come out of a script as text. As scores, the client spends more time on them than PostgreSQL on the deltas.
return redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')
