-- Remove a sealed epoch whose deltas PostgreSQL has. KEYS: sealed, deltas, past. ARGV: the epoch.
-- Does nothing if this epoch is not sealed any more, because another flusher has dropped it.
-- An epoch of up to 10,000 entries, which take a megabyte, is kept for polls (poll.lua). It replaces the epoch that is
-- eight epochs older, and gets one more member, which is not a user. RENAME comes first, as in seal.lua, so that a full
-- Redis executes the other commands, too.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
if redis.call('EXISTS', KEYS[2]) == 1 and #redis.call('ZRANGE', KEYS[2], 10000, 10000) == 0 then
    redis.call('RENAME', KEYS[2], KEYS[3])
    redis.call('ZADD', KEYS[3], ARGV[1], '')
else
    redis.call('UNLINK', KEYS[2])
end
redis.call('DEL', KEYS[1])
return 1
