-- Remove a sealed epoch that PostgreSQL has. KEYS: sealed, deltas, past. ARGV: the epoch.
-- Does nothing if another epoch is sealed: another flusher dropped this one long ago.
-- An epoch of up to 10,000 entries, a megabyte, is kept for polls (poll.lua), in place of the epoch eight before it. It
-- gets one more member, which is not a user. RENAME comes first, as in seal.lua: a full Redis then does the rest, too.
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
