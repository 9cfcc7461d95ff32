-- Give Redis a new incarnation, unless somebody did. KEYS: incarnation. ARGV: the known one; the new one.
-- Returns the incarnation that it has then.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])
