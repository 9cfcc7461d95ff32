-- Store the highest generation in which processes have seen PostgreSQL's history; return the highest that is known.
-- KEYS: mark. ARGV: a generation, or 0 to read only.
-- A value of more than 15 digits is not ours: PostgreSQL would refuse it, and Lua cannot represent it exactly.
-- If Redis is full, or takes no writes, this stores nothing, and returns the stored value: that is not an outage.
local known = redis.pcall('GET', KEYS[1])
known = type(known) == 'string' and #known <= 15 and tonumber(string.match(known, '^%d+$')) or 0
local generation = tonumber(ARGV[1])
if generation > known and not redis.pcall('SET', KEYS[1], ARGV[1]).err then
    return ARGV[1]
end
return string.format('%.0f', known)
