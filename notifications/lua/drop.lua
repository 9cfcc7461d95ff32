-- Remove a sealed epoch that PostgreSQL has. KEYS: sealed, deltas. ARGV: the epoch.
-- Does nothing where another epoch is sealed: another flusher dropped this one long ago.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('UNLINK', KEYS[2])
    redis.call('DEL', KEYS[1])
    return 1
end
return 0
