-- Note that PostgreSQL alone has changed unread numbers. KEYS: watch. ARGV: a random version.
-- What is noted of PostgreSQL is as old as it was, and as long good.
local kept = redis.pcall('GET', KEYS[1])
local marker, text = string.match(type(kept) == 'string' and kept or '', '^(%S+) %S+ (.*)$')
if marker then
    redis.pcall('SET', KEYS[1], marker .. ' ' .. ARGV[1] .. ' ' .. text, 'KEEPTTL')
end
