-- Record that PostgreSQL's part of unread numbers has changed. KEYS: watch. ARGV: a random version.
-- The state that was noted of PostgreSQL stays, and expires when it would have.
local kept = redis.pcall('GET', KEYS[1])
local marker, text = string.match(type(kept) == 'string' and kept or '', '^(%S+) %S+ (.*)$')
if marker then
    redis.pcall('SET', KEYS[1], marker .. ' ' .. ARGV[1] .. ' ' .. text, 'KEEPTTL')
end
