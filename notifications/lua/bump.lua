-- Record that PostgreSQL's part of unread numbers has changed. KEYS: watch. ARGV: a random version.
-- The recorded state of PostgreSQL's part stays, and expires at the same time as without this call.
local kept = redis.pcall('GET', KEYS[1])
local marker, text = string.match(type(kept) == 'string' and kept or '', '^(%S+) %S+ (.*)$')
if marker then
    redis.pcall('SET', KEYS[1], marker .. ' ' .. ARGV[1] .. ' ' .. text, 'KEEPTTL')
end
