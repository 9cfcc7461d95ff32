-- Remove a sealed epoch that PostgreSQL has. KEYS: sealed. ARGV: the epoch.
-- Does nothing where another epoch is sealed: another flusher dropped this one long ago.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('UNLINK', '{unread}:deltas:' .. ARGV[1])
    redis.call('DEL', KEYS[1])
    return 1
end
return 0
