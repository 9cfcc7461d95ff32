-- Remember the highest generation that PostgreSQL's history was seen to have; return the highest that is known.
-- KEYS: mark. ARGV: a generation, 0 to ask only.
-- A value of more than 15 digits is not ours: PostgreSQL would not take it, nor can Lua count with it.
-- A Redis that is full, or takes no writes, remembers less and says what it knows: that is not an outage of Redis.
local known = redis.pcall('GET', KEYS[1])
known = type(known) == 'string' and #known <= 15 and tonumber(string.match(known, '^%d+$')) or 0
local generation = tonumber(ARGV[1])
if generation > known and not redis.pcall('SET', KEYS[1], ARGV[1]).err then
    return ARGV[1]
end
return string.format('%.0f', known)
